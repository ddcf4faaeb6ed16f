-- KEYS: leases of one tenant. ARGV: 1 lease ms, 2 limit or '', 3.. tokens. Leases the first of the tokens and answers how
-- many. Without a limit all: a renewal that comes late takes its place again, the call that it stands for is running.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local leases, lease = KEYS[1], tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
local count = #ARGV - 2
if ARGV[2] ~= '' then
  count = math.max(0, math.min(count, tonumber(ARGV[2]) - redis.call('ZCARD', leases)))
end
for i = 1, count do
  redis.call('ZADD', leases, now + lease, ARGV[i + 2])
end
if count > 0 then
  redis.call('PEXPIRE', leases, lease)
end
return count
