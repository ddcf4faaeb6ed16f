export { BatchingRedis } from './batching-redis.ts';
export { cacheProblems, readServerFacts, type RedisServerFacts } from './check-server.ts';
export { connectRedis, type RedisClient, type RedisConnectOptions, untilReady } from './connect.ts';
export { redactRedisUrl, RedisError, type RedisErrorKind, toRedisError } from './redis-error.ts';
