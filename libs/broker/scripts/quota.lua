-- KEYS: leases of one tenant. ARGV: 1 'acquire', 'renew' or 'release', 2 token, 3 lease ms, 4 limit.
-- Answers 1 when the token holds a lease after it.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local leases, what, token = KEYS[1], ARGV[1], ARGV[2]
if what == 'release' then
  redis.call('ZREM', leases, token)
  return 0
end
local lease = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
-- A renewal that comes late takes its place again: the call that it stands for is still running.
if what == 'acquire' and redis.call('ZCARD', leases) >= tonumber(ARGV[4]) then
  return 0
end
redis.call('ZADD', leases, now + lease, token)
redis.call('PEXPIRE', leases, lease)
return 1
