export { type RenderedImage, type RenderedPrompt } from './answer/rendered-prompt.ts';
export { writeAnswer, type AnswerOptions } from './answer/write-answer.ts';
export { RenderError } from './errors.ts';
export { mmHash, type HashAlgorithm, type MmHashInput } from './image/mm-hash.ts';
export { type JsonObject, type JsonValue } from './json/json-value.ts';
export { type ProfileOptions } from './profile.ts';
export { Renderer } from './renderer.ts';
export { type TokenizedRequest } from './tokenize-requests.ts';
