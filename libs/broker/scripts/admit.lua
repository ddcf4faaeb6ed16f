-- ARGV: 1 new generation, 2 hash, 3 timeout ms, 4 result life ms, 5 '1' if it is a wait, 6 '1' if it may be made,
-- 7 '1' to attach whatever the hash, 8 codes that run again (',a,b,'), 9 lane, 10.. further fields of a new record, last: body.
-- Answers { what, generation, deadline, now, lane }.
local r = redis.call('HMGET', rec, 's', 'g', 'h', 'x', 'd', 'lane', 'rc', 'rs')
local state, generation, hash, mark, deadline, lane, code, status = unpack(r)

local function answer(what)
  if ARGV[5] == '1' then
    redis.call('HINCRBY', rec, 'w', 1)
  end
  return { what, generation, deadline, now, lane }
end

local isSame = hash == ARGV[2] or ARGV[7] == '1'
if live[state] then
  if not isSame then
    return { 'CONFLICT' }
  end
  if mark then
    redis.call('HDEL', rec, 'x')
    return answer('REVIVED')
  end
  return answer('LIVE')
end
if state == 'done' and code ~= 'CANCELLED' then
  if not isSame then
    return { 'CONFLICT' }
  end
  local ending = code or status
  if not string.find(ARGV[8], ',' .. ending .. ',', 1, true) then
    return answer('READY')
  end
end
if ARGV[6] ~= '1' then
  return { 'FULL' }
end

if state then
  redis.call('UNLINK', rec, body, res)
end
generation, lane = ARGV[1], ARGV[9]
deadline = now + tonumber(ARGV[3])
redis.call('HSET', rec, 's', 'queued', 'g', generation, 'h', ARGV[2], 'c', now, 'd', deadline, 'lane', lane, unpack(ARGV, 10, #ARGV - 1))
-- Past the deadline a reader or the sweeper ends it, and then its result has a life of its own.
redis.call('PEXPIREAT', rec, deadline + 60000 + tonumber(ARGV[4]))
put(body, ARGV[#ARGV], deadline + 60000)
return answer('NEW')
