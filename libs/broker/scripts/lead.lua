-- KEYS: the lead. ARGV: 1 'take' or 'leave', 2 token, 3 life ms. Answers 1 when the token leads after it.
local holder = redis.call('GET', KEYS[1])
if ARGV[1] == 'leave' then
  if holder == ARGV[2] then
    redis.call('UNLINK', KEYS[1])
  end
  return 0
end
if holder and holder ~= ARGV[2] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
