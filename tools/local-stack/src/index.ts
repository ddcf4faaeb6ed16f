export { ChildFailedError } from './child-group.ts';
export {
  coordinatorConfig,
  type CoordinatorPlace,
  type CoordinatorSettings,
} from './coordinator-config.ts';
export { type Demo, type DemoResult, runDemo } from './demo.ts';
export { runQueueDemo, type QueueDemo } from './demo-queue.ts';
export { demoPhoto, toDataUri } from './demo-photo.ts';
export { cacheFlags, findRedis, type FoundRedis } from './find-redis.ts';
export { freePorts } from './free-ports.ts';
export { queueParts, type QueueSettings } from './queue.ts';
export { readEvents } from './read-events.ts';
export {
  type MediaFetcherSettings,
  type Pod,
  type Stack,
  type StackOptions,
  startStack,
} from './stack.ts';
