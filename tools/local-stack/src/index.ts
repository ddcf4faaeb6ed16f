export { ChildFailedError } from './child-group.ts';
export { runQueueDemo, type QueueDemo } from './demo-queue.ts';
export { findRedis, type FoundRedis } from './find-redis.ts';
export { type QueueSettings } from './queue.ts';
export { demoPhoto } from './demo-photo.ts';
export { freePorts } from './free-ports.ts';
export { readEvents } from './read-events.ts';
export {
  type CoordinatorSettings,
  type Pod,
  type Stack,
  type StackOptions,
  startStack,
} from './stack.ts';
