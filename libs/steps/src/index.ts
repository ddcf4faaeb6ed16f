export { defaultBootstrapPort, parseBootstrapPort } from '@llm-d/connectors';
export { asyncBroker } from './async/async-broker.ts';
export { buildPipeline, builtInSteps, type PipelineOptions } from './build-pipeline.ts';
export { loadPlugins } from './load-plugins.ts';
export {
  type ClientBody,
  Passthrough,
  type PassthroughOptions,
  type PassthroughRequest,
} from './passthrough.ts';
