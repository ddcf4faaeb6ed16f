/** What stands where a secret was. */
const mask = '***';

/** Names whose value is a secret: `api_key`, `redis_password`, `auth-token`; not `max_tokens`. */
const secretName =
  /(?:^|[_-])(?:pass|password|passwd|passphrase|secret|token|api_?key|access_?key|private_?key|credentials?|authorization|cookie|signature|sig)$/i;

/** Whether a key or header of this name holds something that must not be shown. */
export function isSecretName(name: string): boolean {
  return secretName.test(name);
}

/**
 * A value of the configuration as it may be shown: values of secret names become `***`, at any depth, and so do the
 * credentials and secret query parameters of URLs. The value given is not changed.
 */
export function maskSecrets(name: string, value: unknown): unknown {
  if (value === null || value === undefined || value === '') return value;
  if (Array.isArray(value)) return value.map((item: unknown) => maskSecrets(name, item));
  if (typeof value === 'object') {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, maskSecrets(key, item)]),
    );
  }
  if (isSecretName(name)) return mask;
  return typeof value === 'string' ? maskUrls(value) : value;
}

/** Masks what stands between `//` and the last `@`: passwords are not always escaped as they should be. */
function maskUrls(text: string): string {
  if (!text.includes('://')) return text;
  return text
    .replaceAll(/:\/\/[^\s,]*@/g, (found) =>
      // An `@` after the host, as in http://registry/@scope, is none of a URL's credentials.
      hasNoCredentials(text) ? found : `://${mask}@`,
    )
    .replaceAll(/([?&])([^=&#\s]+)=([^&#\s]+)/g, (found, mark: string, name: string) =>
      isSecretName(name) ? `${mark}${name}=${mask}` : found,
    );
}

function hasNoCredentials(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username === '' && password === '';
}
