export { ChildFailedError } from './child-group.ts';
export {
  coordinatorConfig,
  type CoordinatorPlace,
  type CoordinatorSettings,
} from './coordinator-config.ts';
export { demoPhoto } from './demo-photo.ts';
export { freePorts } from './free-ports.ts';
export { readEvents } from './read-events.ts';
export { type Pod, type Stack, type StackOptions, startStack } from './stack.ts';
