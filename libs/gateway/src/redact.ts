/** Longest text of a body that a log shows, in bytes. */
const maxTextBytes = 50;
const maxElements = 10;
/** Objects and arrays at this depth are not shown; the outermost has depth 0. */
const maxDepth = 32;
/** Of a body that is not JSON. */
const maxOtherBytes = 200;
const maxHeaderLength = 256;

const secretHeaders = new Set([
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie'],
  ...['x-api-key', 'x-auth-token'],
]);

/**
 * A body as a log at level trace may show it: short values, with longer texts, URLs and media replaced
 * (coordinator.md 6). Parses the body, so never to be called on the hot path.
 */
export function redactBody(body: Uint8Array): unknown {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return body.length <= maxOtherBytes ? text : `${cut(body)}...`;
  }
  return redactValue(value, 0);
}

/** Headers as a log may show them: names in lower case, of several values the first, secrets hidden. */
export function redactHeaders(headers: readonly string[]): Record<string, string> {
  const shown: Record<string, string> = {};
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] ?? '').toLowerCase();
    if (Object.hasOwn(shown, name)) continue;
    shown[name] = secretHeaders.has(name) ? '[REDACTED]' : shortened(headers[i + 1] ?? '');
  }
  return shown;
}

function redactValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return redactText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= maxDepth) return '[truncated]';
  if (!Array.isArray(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, redactValue(member, depth + 1)]),
    );
  }
  const shown = value.slice(0, maxElements).map((element) => redactValue(element, depth + 1));
  const left = value.length - shown.length;
  return left > 0 ? [...shown, `... +${left} more`] : shown;
}

function redactText(text: string): string {
  if (Buffer.byteLength(text) <= maxTextBytes) return text;
  if (text.startsWith('data:')) return '[base64]';
  return /^https?:\/\//.test(text) ? '[url]' : '...';
}

/** The first bytes, not ending inside a character. */
function cut(body: Uint8Array): string {
  let end = maxOtherBytes;
  while (end > 0 && ((body[end] ?? 0) & 0xc0) === 0x80) end--;
  return Buffer.from(body.subarray(0, end)).toString('utf8');
}

function shortened(value: string): string {
  return value.length > maxHeaderLength
    ? `${value.slice(0, maxHeaderLength)}...[truncated]`
    : value;
}
