/** The first value of a header; `headers` are names and values in turn, `name` is in lower case. */
export function headerValue(headers: readonly string[], name: string): string | undefined {
  const at = headers.findIndex((text, i) => i % 2 === 0 && text.toLowerCase() === name);
  return at < 0 ? undefined : headers[at + 1];
}

/** Headers that describe one worker's body and not the one that is made of several. */
const aboutBody = new Set(['content-length', 'content-encoding']);

/** Headers of one worker's answer for the answer of the batch. */
export function batchHeaders(headers: readonly string[]): string[] {
  return headers.filter((_, i) => !aboutBody.has((headers[i - (i % 2)] ?? '').toLowerCase()));
}
