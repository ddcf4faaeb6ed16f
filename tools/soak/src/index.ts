export { asyncSoak, type AsyncSoakResult } from './async/async-soak.ts';
export { type AbortOptions, type AbortResult, aborts } from './aborts.ts';
export { fuzz } from './fuzz.ts';
export { type ServiceName, ServiceProcess } from './async/service-process.ts';
export { drawImage, type TestImage } from './images.ts';
export { mediaSoak, type MediaSoakOptions, type MediaSoakResult } from './media.ts';
export { chatOf } from './prompts.ts';
export {
  type CallEnd,
  type ProxiedCall,
  type Proxy,
  type ProxyOptions,
  startProxy,
  type Tampering,
} from './proxy.ts';
export { renderSoak, type RenderSoakOptions, type RenderSoakResult } from './render.ts';
export { until } from './until.ts';
