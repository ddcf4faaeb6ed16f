import { JsonDocument, type JsonInput, type JsonSpan, parseJson } from '@llm-d/json-document';

import { RenderError } from '../errors.ts';
import { metadataOf } from './metadata-of.ts';

/** What the caller of an answer expects. */
export interface AnswerExpectation {
  /** Completions answer a list of objects, the other routes one object. */
  readonly isList: boolean;
  /** Name of the model to put in; undefined leaves it. */
  readonly callersModel: string | undefined;
  /** Takes `kwargs_data` away, from a server that does not know the cheap mode. */
  readonly isCheap: boolean;
}

/** 502 for an answer that is not what a render server of a supported release gives. */
export function unsupportedAnswer(what: string): RenderError {
  return new RenderError(
    502,
    'UpstreamError',
    `The render server's answer is not supported: ${what} (unsupported_render_version).`,
  );
}

/** Brings a whole answer of any era into today's form. Throws a 502 for one that cannot be brought there. */
export function normaliseAnswer(
  body: Uint8Array,
  expectation: AnswerExpectation,
): readonly Uint8Array[] {
  const root = parse(body);
  if (!expectation.isList) {
    if (root.kind !== 'object') throw unsupportedAnswer('a list in place of an object');
    return normaliseObject(body, expectation);
  }
  const objects = root.kind === 'array' ? [...root.elements()] : [root];
  const chunks = objects.flatMap((object, at) => [
    Buffer.from(at === 0 ? '[' : ','),
    ...normaliseObject(object.bytes, expectation),
  ]);
  return [...(chunks.length === 0 ? [Buffer.from('[')] : chunks), Buffer.from(']')];
}

function parse(body: Uint8Array): JsonSpan {
  try {
    return parseJson(body);
  } catch {
    throw unsupportedAnswer('no JSON');
  }
}

function normaliseObject(
  body: Uint8Array,
  { callersModel, isCheap }: AnswerExpectation,
): readonly Uint8Array[] {
  let document: JsonDocument;
  try {
    document = JsonDocument.parse(body);
  } catch {
    throw unsupportedAnswer('no object');
  }
  checkTokenIds(document.get('token_ids'));
  const features = normaliseFeatures(document.get('features'), isCheap);
  return document
    .with({
      ...(features !== undefined && { features }),
      ...(callersModel !== undefined && { model: callersModel }),
    })
    .chunks();
}

const TOKEN_IDS = /^\[\s*\d+(?:\s*,\s*\d+)*\s*\]$/;

function checkTokenIds(tokenIds: JsonSpan | undefined): void {
  const text = tokenIds === undefined ? '' : Buffer.from(tokenIds.bytes).toString('latin1');
  if (!TOKEN_IDS.test(text)) throw unsupportedAnswer('token_ids are not a list of ids');
}

/** Undefined when the features stay as they are. */
function normaliseFeatures(
  features: JsonSpan | undefined,
  isCheap: boolean,
): JsonInput | undefined {
  if (features === undefined) return null;
  if (features.isNull()) return undefined;
  if (features.kind !== 'object') throw unsupportedAnswer('features are not an object');
  const counts = countsOf(features.get('mm_hashes'));
  if (Object.values(counts).every((count) => count === 0)) return null;
  const placeholders = countsOf(features.get('mm_placeholders'));
  const kwargs = features.get('kwargs_data');
  const hasKwargs = kwargs !== undefined && !kwargs.isNull() && !isCheap;
  const kwargsCounts = hasKwargs ? countsOf(kwargs) : counts;
  for (const [modality, count] of Object.entries(counts)) {
    if (placeholders[modality] !== count || kwargsCounts[modality] !== count) {
      throw unsupportedAnswer(`lists of unequal length for the ${modality} items`);
    }
  }
  const edits: Record<string, JsonInput> = {};
  if (!hasKwargs && kwargs?.isNull() !== true) edits['kwargs_data'] = null;
  if (hasKwargs && features.get('mm_metadata') === undefined) {
    edits['mm_metadata'] = metadataOfAll(kwargs);
  }
  if (Object.keys(edits).length === 0) return undefined;
  const members = [...features.members()].map(({ name, value }) => [name, value] as const);
  return { ...Object.fromEntries(members), ...edits };
}

/** `mm_metadata` of a server that does not know it. */
function metadataOfAll(kwargs: JsonSpan): JsonInput {
  return Object.fromEntries(
    [...kwargs.members()].map(({ name, value }) => [
      name,
      [...value.elements()].map((item) => {
        const blob = item.text();
        return blob === undefined ? null : metadataOf(blob);
      }),
    ]),
  );
}

/** Items per modality. */
function countsOf(map: JsonSpan | undefined): Record<string, number> {
  if (map === undefined || map.isNull()) return {};
  if (map.kind !== 'object') throw unsupportedAnswer('features have another form');
  return Object.fromEntries(
    [...map.members()].map(({ name, value }) => {
      if (value.kind !== 'array') throw unsupportedAnswer('features have another form');
      return [name, [...value.elements()].length];
    }),
  );
}
