-- ARGV: 1 generation, 2 token, 3 result life ms, 4 member.
-- Answers { what, then lane, tier, model, path, content type, headers, traceparent, mode, starts, retries, d, c, now }.
local r = redis.call('HMGET', rec, 's', 'g', 'x', 'd', 'lane', 'tier', 'model', 'path', 'ct', 'fh', 'tp', 'mode', 'a', 'n', 'c')
local state, generation, mark, deadline, lane, tier, model, path, contentType, headers, traceparent, mode = unpack(r, 1, 12)
if not state or generation ~= ARGV[1] or state == 'tomb' then
  return { 'GONE' }
end
if state == 'done' then
  return { 'DONE' }
end
if mark then
  fail(ARGV[4], ARGV[3], 'CANCELLED', 'the request was cancelled')
  return { 'DONE', lane, 'CANCELLED' }
end
if now >= tonumber(deadline) then
  expire(ARGV[4], ARGV[3])
  return { 'DONE', lane, 'DEADLINE_EXCEEDED' }
end
local starts = tonumber(r[13] or 0) + 1
redis.call('HSET', rec, 's', 'active', 'o', ARGV[2], 'a', starts)
return { 'RUN', lane, tier, model, path, contentType, headers, traceparent or '', mode, starts, r[14] or 0, deadline, r[15], now }
