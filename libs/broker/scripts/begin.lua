-- ARGV: 1 generation, 2 token, 3 result life ms, 4 member.
-- Answers { what, then lane, tier, model, path, content type, headers, traceparent, mode, starts, retries, d, c, now }.
local r = redis.call('HMGET', rec, 's', 'g', 'x', 'd')
local state, generation, mark, deadline = unpack(r)
if not state or generation ~= ARGV[1] or state == 'tomb' then
  return { 'GONE' }
end
if state == 'done' then
  return { 'DONE' }
end
if mark then
  fail(ARGV[4], ARGV[3], 'CANCELLED', 'the request was cancelled')
  return { 'DONE', redis.call('HGET', rec, 'lane'), 'CANCELLED' }
end
if now >= tonumber(deadline) then
  expire(ARGV[4], ARGV[3])
  return { 'DONE', redis.call('HGET', rec, 'lane'), 'DEADLINE_EXCEEDED' }
end
redis.call('HSET', rec, 's', 'active', 'o', ARGV[2])
local starts = redis.call('HINCRBY', rec, 'a', 1)
local f = redis.call('HMGET', rec, 'lane', 'tier', 'model', 'path', 'ct', 'fh', 'tp', 'mode', 'n', 'c')
return { 'RUN', f[1], f[2], f[3], f[4], f[5], f[6], f[7] or '', f[8], starts, f[9] or 0, deadline, f[10], now }
