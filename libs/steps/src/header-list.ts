/** Whether an answer calls itself JSON. */
export const isJson = (headers: readonly string[]): boolean =>
  /^application\/(?:[^;]+\+)?json/i.test(valueOf(headers, 'content-type') ?? '');

/** The first value of a header; the name in lower case. */
export function valueOf(headers: readonly string[], wanted: string): string | undefined {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === wanted) return headers[i + 1];
  }
  return undefined;
}

/** The headers whose lower-case name is wanted; names and values in turn. */
export function pick(headers: readonly string[], isWanted: (name: string) => boolean): string[] {
  const picked: string[] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (isWanted(name.toLowerCase())) picked.push(name, headers[i + 1] ?? '');
  }
  return picked;
}
