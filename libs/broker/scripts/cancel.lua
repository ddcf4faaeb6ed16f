-- ARGV: 1 tenant and id as in a member, 2 generation or '', 3 reason, 4 what: 'drop' (the request is gone),
-- 'leave' (a waiter left; its last one cancels what a wait made), 5 result life ms, 6 '1' if a running one is cancelled
-- too. Answers { what, lane, generation }.
local r = redis.call('HMGET', rec, 's', 'g', 'lane', 'mode', 'x')
local state, generation, lane, mode, mark = unpack(r)
if not state or state == 'tomb' or (ARGV[2] ~= '' and generation ~= ARGV[2]) then
  return { 'NONE' }
end
local member = ARGV[1] .. '~' .. generation

if ARGV[4] == 'leave' then
  local waiters = redis.call('HINCRBY', rec, 'w', -1)
  if not live[state] or waiters > 0 or mode ~= 'wait' or (state == 'active' and ARGV[6] ~= '1') then
    return { 'KEPT' }
  end
  if state == 'queued' then
    -- Only marked: a repetition of the request before its turn takes the mark away.
    redis.call('HSET', rec, 'x', ARGV[3])
    redis.call('PUBLISH', 'ab:cancel', member .. ' ' .. ARGV[3])
    return { 'QUEUED', lane, generation }
  end
  fail(member, ARGV[5], 'CANCELLED', 'the client left before the answer')
  redis.call('PUBLISH', 'ab:cancel', member .. ' ' .. ARGV[3])
  return { 'ACTIVE', lane, generation }
end

if state == 'active' and ARGV[6] ~= '1' then
  return { 'KEPT' }
end
if state == 'done' then
  redis.call('UNLINK', rec, body, res)
  return { 'DELETED', lane, generation }
end
redis.call('UNLINK', rec, body, res)
redis.call('HSET', rec, 's', 'tomb', 'g', generation, 'lane', lane)
redis.call('PEXPIRE', rec, 60000)
redis.call('PUBLISH', 'ab:cancel', member .. ' ' .. ARGV[3])
redis.call('PUBLISH', 'ab:done', member)
return { state == 'active' and 'ACTIVE' or 'QUEUED', lane, generation }
