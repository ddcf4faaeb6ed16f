/**
 * A `data:` URI with its payload as canonical base64, or undefined when it cannot become that: percent escapes
 * are decoded, blanks removed, the URL-safe alphabet replaced and missing padding added. The head stays.
 */
export function repairDataUri(uri: Uint8Array): Buffer | undefined {
  const text = Buffer.from(uri.buffer, uri.byteOffset, uri.byteLength).toString('latin1');
  const comma = text.indexOf(',');
  if (comma === -1) {
    return undefined;
  }
  let payload = text.slice(comma + 1);
  if (payload.includes('%')) {
    payload = payload.replaceAll(/%([0-9a-f]{2})/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
  }
  payload = payload.replaceAll(/[ \t\r\n\f]+/g, '').replace(/={1,2}$/, '');
  payload = payload.replaceAll('-', '+').replaceAll('_', '/');
  // Left over are a whole group, or two or three characters of one.
  const rest = payload.length % 4;
  if (payload === '' || rest === 1) {
    return undefined;
  }
  const padding = rest === 0 ? '' : '='.repeat(4 - rest);
  return Buffer.from(`${text.slice(0, comma + 1)}${payload}${padding}`, 'latin1');
}
