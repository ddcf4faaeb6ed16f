-- KEYS: upstream's counter of one tenant. ARGV: 1 'acquire', 'renew' or 'release', 2 its life in seconds, 3 limit.
-- Answers 1 when a place was taken.
local counter, what, life = KEYS[1], ARGV[1], ARGV[2]
local held = tonumber(redis.call('GET', counter) or 0)
if what == 'acquire' then
  if held >= tonumber(ARGV[3]) then
    return 0
  end
  redis.call('INCR', counter)
elseif what == 'release' and held > 0 then
  redis.call('DECR', counter)
  held = held - 1
end
if what == 'acquire' or held > 0 then
  redis.call('EXPIRE', counter, life)
end
return what == 'acquire' and 1 or 0
