-- Put before each script of a record. KEYS: record, body, result, upload; all in the slot of one request. Long bytes are
-- uploaded by a SET of their own just before: as arguments they would be copied twice while everybody waits.
local rec, body, res, upload = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local isUploaded = string.sub(upload, -4) ~= ':up:'
if isUploaded and redis.call('EXISTS', upload) == 0 then
  return redis.error_reply('ERR the upload is lost')
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local live = { queued = true, active = true }

-- Ends a live request. `set` are further fields of the record in turns of name and value; the owner is emptied and not
-- deleted, which would be one more write.
local function store(member, lifeMs, set)
  redis.call('HSET', rec, 's', 'done', 'o', '', 'f', now, unpack(set))
  redis.call('PEXPIRE', rec, lifeMs)
  redis.call('UNLINK', body)
  redis.call('PUBLISH', 'ab:done', member)
end

-- Stores the upload, or bytes that came as an argument, until a time.
local function put(key, bytes, at)
  if isUploaded then
    redis.call('RENAME', upload, key)
    redis.call('PEXPIREAT', key, at)
  else
    redis.call('SET', key, bytes, 'PXAT', at)
  end
end

local function fail(member, lifeMs, code, message)
  redis.call('HDEL', rec, 'x', 'ls', 'lct')
  redis.call('UNLINK', res)
  store(member, lifeMs, { 'rc', code, 'rm', message })
end

-- The answer of the last attempt stands in for a missing one.
local function expire(member, lifeMs)
  local last = redis.call('HMGET', rec, 'ls', 'lct')
  if last[1] then
    redis.call('HDEL', rec, 'x', 'ls', 'lct')
    redis.call('PEXPIRE', res, lifeMs)
    store(member, lifeMs, { 'rs', last[1], 'rct', last[2] or '' })
  else
    fail(member, lifeMs, 'DEADLINE_EXCEEDED', 'the deadline came before an answer')
  end
end

