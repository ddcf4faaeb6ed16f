-- ARGV: 1 generation, 2 token, 3 '1' if it counts as a retry, 4 life of the last answer ms, 5 status or '',
-- 6 content type, 7 body of the last answer. Answers a word.
local r = redis.call('HMGET', rec, 's', 'g', 'o', 'd')
local state, generation, owner, deadline = unpack(r)
if not state or generation ~= ARGV[1] or state == 'tomb' then
  return 'GONE'
end
if state == 'done' then
  return 'DONE'
end
-- Another worker has begun meanwhile: what this one says of the request is old.
if owner ~= ARGV[2] then
  return 'GONE'
end
redis.call('HSET', rec, 's', 'queued')
redis.call('HDEL', rec, 'o')
if ARGV[3] == '1' then
  redis.call('HINCRBY', rec, 'n', 1)
end
if ARGV[5] ~= '' then
  redis.call('HSET', rec, 'ls', ARGV[5], 'lct', ARGV[6])
  put(res, ARGV[7], tonumber(deadline) + 60000 + tonumber(ARGV[4]))
end
return 'OK'
