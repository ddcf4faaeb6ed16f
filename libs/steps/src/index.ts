export { buildPipeline, builtInSteps, type PipelineOptions } from './build-pipeline.ts';
