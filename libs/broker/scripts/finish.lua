-- ARGV: 1 generation, 2 member, 3 result life ms, 4 kind, 5.. by kind:
--   'response': status, content type, body
--   'error': code, message
--   'overdue': ms past the deadline that must have gone by
-- Answers { what, lane, ms to the deadline }.
local r = redis.call('HMGET', rec, 's', 'g', 'd', 'lane', 'x', 'ls')
local state, generation, deadline, lane, mark, last = unpack(r)
if not state or generation ~= ARGV[1] or state == 'tomb' then
  return { 'GONE' }
end
if state == 'done' then
  return { 'ALREADY', lane }
end
if ARGV[4] == 'overdue' then
  local left = tonumber(deadline) - now
  if left + tonumber(ARGV[5]) > 0 then
    return { 'EARLY', lane, left }
  end
  expire(ARGV[2], ARGV[3])
elseif ARGV[4] == 'response' then
  if mark or last then
    redis.call('HDEL', rec, 'x', 'ls', 'lct')
  end
  put(res, ARGV[7], now + tonumber(ARGV[3]))
  local size = isUploaded and redis.call('STRLEN', res) or #ARGV[7]
  store(ARGV[2], ARGV[3], { 'rs', ARGV[5], 'rct', ARGV[6], 'rz', size })
else
  fail(ARGV[2], ARGV[3], ARGV[5], ARGV[6])
end
return { 'STORED', lane }
