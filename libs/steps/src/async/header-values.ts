/** All values of some headers that are not empty, each once, in the order they came. */
export function headerValues(rawHeaders: readonly string[], names: readonly string[]): string[] {
  const values = new Set<string>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const value = rawHeaders[i + 1] ?? '';
    if (value !== '' && names.includes((rawHeaders[i] ?? '').toLowerCase())) values.add(value);
  }
  return [...values];
}
