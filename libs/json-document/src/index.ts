export { isBase64 } from './byte-scan.ts';
export { editObject } from './edit-object.ts';
export { type DocumentLimits, JsonDocument, parseJson, rootOf } from './json-document.ts';
export { JsonError, type JsonErrorReason } from './json-error.ts';
export { type JsonInput, JsonRaw } from './json-raw.ts';
export { type JsonKind, type JsonMember, JsonSpan } from './json-span.ts';
export { replaceValue, setMember, type SpanPatch } from './patches.ts';
export { jsonRaw } from './serialize.ts';
export { defaultMaxDepth, type JsonLimits, validateJson } from './validate.ts';
