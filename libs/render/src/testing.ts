export { imageServers } from './recorded/image-cases.ts';
export { type RecordedCase, type RecordedServer } from './recorded/recorded-case.ts';
export { textServers } from './recorded/text-cases.ts';
