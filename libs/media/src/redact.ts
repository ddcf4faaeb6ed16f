const maxNameLength = 64;
/** Begins parameters inside a path, such as `;jsessionid=`, or a query that somebody has escaped. */
const parameters = /(?:[;=&]|%3[bdf]|%26).*$/i;

/**
 * A URL for logs: scheme, host, port and the last path segment. Query, fragment and user info may hold
 * secrets and become `…`; a `data:` URI becomes its type and length.
 */
export function redactUrl(text: string): string {
  const url = parsed(text);
  if (url === null) {
    return redactedName(text);
  }
  const userInfo = url.username === '' && url.password === '' ? '' : '…@';
  const directories = url.pathname.lastIndexOf('/') > 0 ? '/…/' : '/';
  const rest = url.search === '' && url.hash === '' ? '' : '…';
  return `${url.protocol}//${userInfo}${url.host}${directories}${lastSegment(url)}${rest}`;
}

/** What a URL is about, for logs beside its host: the last path segment, or the type and length of a `data:` URI. */
export function redactedName(text: string): string {
  if (isDataUri(text)) {
    const type = /^data:([\w.+-]+\/[\w.+-]+)/i.exec(text.slice(0, 128))?.[1] ?? 'unknown type';
    return `data:${type.toLowerCase()} (${text.length} characters)`;
  }
  const url = parsed(text);
  return url === null ? `unparsable URL (${text.length} characters)` : lastSegment(url);
}

/** The host that a URL names; undefined where it has none. */
export function namedHost(text: string): string | undefined {
  return parsed(text)?.hostname;
}

const isDataUri = (text: string): boolean => /^data:/i.test(text);

function parsed(text: string): URL | null {
  return isDataUri(text) ? null : URL.parse(text);
}

function lastSegment({ pathname }: URL): string {
  const name = pathname.slice(pathname.lastIndexOf('/') + 1).replace(parameters, '…');
  return name.length > maxNameLength ? `${name.slice(0, maxNameLength)}…` : name;
}
