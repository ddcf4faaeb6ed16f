const maxNameLength = 64;

/**
 * A URL for logs: scheme, host, port and the last path segment. Query, fragment and user info may hold
 * secrets and become `…`; a `data:` URI becomes its type and length.
 */
export function redactUrl(text: string): string {
  if (/^data:/i.test(text)) {
    const type = /^data:([\w.+-]+\/[\w.+-]+)/i.exec(text.slice(0, 128))?.[1] ?? 'unknown type';
    return `data:${type.toLowerCase()} (${text.length} characters)`;
  }
  if (!URL.canParse(text)) {
    return `unparsable URL (${text.length} characters)`;
  }
  const url = new URL(text);
  const userInfo = url.username === '' && url.password === '' ? '' : '…@';
  const slash = url.pathname.lastIndexOf('/');
  const name = url.pathname.slice(slash + 1);
  const shown = name.length > maxNameLength ? `${name.slice(0, maxNameLength)}…` : name;
  const directories = slash > 0 ? '/…/' : '/';
  const rest = url.search === '' && url.hash === '' ? '' : '…';
  return `${url.protocol}//${userInfo}${url.host}${directories}${shown}${rest}`;
}
