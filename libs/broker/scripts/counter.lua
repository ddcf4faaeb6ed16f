-- KEYS: upstream's counter of one tenant. ARGV: 1 'acquire', 'renew' or 'release', 2 its life in seconds, 3 how many,
-- 4 limit. Answers how many places were taken.
local counter, what, life, count = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local held = tonumber(redis.call('GET', counter) or 0)
local taken = 0
if what == 'acquire' then
  taken = math.max(0, math.min(count, tonumber(ARGV[4]) - held))
  held = held + taken
  if taken > 0 then
    redis.call('INCRBY', counter, taken)
  end
elseif what == 'release' and held > 0 then
  held = held - math.min(count, held)
  redis.call('SET', counter, held, 'KEEPTTL')
end
if taken > 0 or (what ~= 'acquire' and held > 0) then
  redis.call('EXPIRE', counter, life)
end
return taken
