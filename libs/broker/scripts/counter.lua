-- KEYS: upstream's counter of one tenant. ARGV: 1 its life in seconds, 2 limit or '', 3 how many places are wanted; below 0:
-- how many are given back. Answers how many were taken. Without a limit none is: a renewal.
local counter, limit, wanted = KEYS[1], ARGV[2], tonumber(ARGV[3])
local held = tonumber(redis.call('GET', counter) or 0)
local taken = 0
if limit ~= '' then
  taken = math.max(0, math.min(wanted, tonumber(limit) - held))
elseif wanted < 0 then
  taken = math.max(wanted, -held)
end
if taken ~= 0 then
  redis.call('INCRBY', counter, taken)
end
if held + taken > 0 then
  redis.call('EXPIRE', counter, ARGV[1])
end
return taken
