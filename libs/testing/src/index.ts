export { formatJson } from './format-json.ts';
export { expectGolden } from './golden.ts';
export { type RedisServer, startRedis } from './redis.ts';
export { type RedisClusterServers, startRedisCluster } from './redis-cluster.ts';
export {
  type Answer,
  type Ending,
  type Piece,
  type RecordedCall,
  type Script,
  scriptedServer,
  type ScriptedServer,
} from './scripted-server.ts';
export { startTcpRelay, type TcpRelay } from './tcp-relay.ts';
export { type CollectedSpan, type TraceCollector, traceCollector } from './trace-collector.ts';
