-- ARGV: 1 generation, 2 what: 'attach' (a waiter comes), 'look', 'fetched', 'delivered' (to a waiter), 'undelivered',
-- 3 grace ms. Answers { state, ms to the deadline }.
local r = redis.call('HMGET', rec, 's', 'g', 'd')
local state, generation, deadline = unpack(r)
if not state or generation ~= ARGV[1] or state == 'tomb' then
  return { 'gone' }
end
local what, grace = ARGV[2], tonumber(ARGV[3])
local waiters = 0
if what == 'attach' then
  redis.call('HINCRBY', rec, 'w', 1)
elseif what == 'delivered' or what == 'undelivered' then
  waiters = redis.call('HINCRBY', rec, 'w', -1)
end
if state == 'done' then
  if (what == 'fetched' and grace == 0) or (what == 'delivered' and waiters <= 0) then
    redis.call('UNLINK', rec, body, res)
  elseif (what == 'fetched' or what == 'delivered') and grace > 0 then
    redis.call('PEXPIRE', rec, grace)
    redis.call('PEXPIRE', res, grace)
  end
end
return { state, tonumber(deadline) - now }
