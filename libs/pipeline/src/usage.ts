/** Tokens as an answer's `usage` tells them; what it does not tell is undefined. */
export interface Usage {
  readonly promptTokens: number | undefined;
  readonly completionTokens: number | undefined;
  readonly cachedTokens: number | undefined;
}

const key = Buffer.from('"usage"');
const [quote, backslash, open, close, colon] = [0x22, 0x5c, 0x7b, 0x7d, 0x3a];

/**
 * Reads the last `usage` object in the end of an answer, be it an object or an event stream; the rest need not be JSON.
 * Undefined when there is none, null when it cannot be read.
 */
export function readUsage(tail: Buffer): Usage | null | undefined {
  for (
    let at = tail.lastIndexOf(key);
    at >= 0;
    at = at === 0 ? -1 : tail.lastIndexOf(key, at - 1)
  ) {
    const start = objectAfter(tail, at + key.length);
    // In a text of the model the quotes of the key are escaped.
    if (start === undefined || tail[at - 1] === backslash) continue;
    return parseUsage(tail, start);
  }
  return undefined;
}

/** Where the object after a key begins; undefined when another value follows. */
function objectAfter(bytes: Buffer, from: number): number | undefined {
  let at = skipSpace(bytes, from);
  if (bytes[at] !== colon) return undefined;
  at = skipSpace(bytes, at + 1);
  return bytes[at] === open ? at : undefined;
}

function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return at;
}

function parseUsage(bytes: Buffer, start: number): Usage | null {
  const end = objectEnd(bytes, start);
  if (end === undefined) return null;
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(bytes.toString('utf8', start, end)) as Record<string, unknown>;
  } catch {
    return null;
  }
  return {
    promptTokens: tokens(value['prompt_tokens'] ?? value['input_tokens']),
    completionTokens: tokens(value['completion_tokens'] ?? value['output_tokens']),
    cachedTokens: tokens(
      member(value['prompt_tokens_details'] ?? value['input_tokens_details'], 'cached_tokens'),
    ),
  };
}

/** One past the brace that closes an object; undefined when the answer ends before it. */
function objectEnd(bytes: Buffer, start: number): number | undefined {
  let [depth, isText] = [0, false];
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at];
    if (isText) {
      if (byte === backslash) at++;
      else if (byte === quote) isText = false;
    } else if (byte === quote) isText = true;
    else if (byte === open) depth++;
    else if (byte === close && --depth === 0) return at + 1;
  }
  return undefined;
}

function member(object: unknown, name: string): unknown {
  return typeof object === 'object' && object !== null && name in object
    ? (object as Record<string, unknown>)[name]
    : undefined;
}

function tokens(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
