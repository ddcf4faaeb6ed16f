import { types } from 'node:util';
import { MediaError, type MediaErrorCode } from './media-error.ts';

/** Whether a failure came before the response's headers or within its body. */
export type TransportPhase = 'headers' | 'body';

const codes: Readonly<Record<string, MediaErrorCode>> = {
  ENOTFOUND: 'media_dns_failed',
  EAI_AGAIN: 'media_dns_failed',
  UND_ERR_CONNECT_TIMEOUT: 'media_timeout',
  ETIMEDOUT: 'media_timeout',
  UND_ERR_HEADERS_TIMEOUT: 'media_timeout',
  UND_ERR_BODY_TIMEOUT: 'media_timeout',
  UND_ERR_HEADERS_OVERFLOW: 'media_protocol_error',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'media_protocol_error',
  UND_ERR_RES_EXCEEDED_MAX_SIZE: 'media_too_large',
  UND_ERR_MAX_ORIGINS_REACHED: 'media_overloaded',
  UND_ERR_DESTROYED: 'media_overloaded',
  UND_ERR_CLOSED: 'media_overloaded',
  UND_ERR_PRX_TLS: 'media_tls_failed',
  UND_ERR_PRX_CONN: 'media_connect_failed',
  EPROTO: 'media_tls_failed',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'media_tls_failed',
  SELF_SIGNED_CERT_IN_CHAIN: 'media_tls_failed',
  // Zlib, when the coding was announced and the bytes do not follow it.
  Z_DATA_ERROR: 'media_protocol_error',
  Z_BUF_ERROR: 'media_truncated',
  Z_NEED_DICT: 'media_protocol_error',
};

const texts: Partial<Record<MediaErrorCode, string>> = {
  media_dns_failed: 'the host name does not resolve',
  media_timeout: 'the origin took too long',
  media_protocol_error: 'the origin did not answer with valid HTTP',
  media_tls_failed: 'no trusted TLS connection to the origin',
  media_connect_failed: 'the origin cannot be reached',
  media_truncated: 'the body ended early',
  media_too_large: 'the body is too large',
  media_overloaded: 'too many downloads at once',
};

function codeOf(error: Error, phase: TransportPhase): MediaErrorCode {
  const text = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const known = codes[text];
  if (known !== undefined) {
    return known;
  }
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_)/.test(text)) {
    return 'media_tls_failed';
  }
  if (text === 'HPE_INVALID_EOF_STATE') {
    return 'media_truncated';
  }
  // The decoders for brotli have codes of their own, like ERR_BROTLI_DECODER_ERROR_FORMAT_PADDING_1.
  const isParserError = error.name === 'HTTPParserError' || error.message === 'bad response';
  if (isParserError || /^ERR__?ERROR_|^ERR_BROTLI/.test(text)) {
    return 'media_protocol_error';
  }
  if (text === '') {
    return 'media_internal'; // neither the system nor undici: a mistake in this package
  }
  return phase === 'body' ? 'media_truncated' : 'media_connect_failed';
}

/**
 * Maps what undici, Node and zlib raise to a MediaError by media-fetcher.md 7; a MediaError that travelled
 * through them as cause or abort reason comes out unchanged. `what` is the redacted URL, for the log.
 */
export function toMediaError(error: unknown, phase: TransportPhase, what: string): MediaError {
  if (error instanceof MediaError) {
    return error;
  }
  // Not `instanceof`: Node's own errors are of another realm when a test runner loads this file.
  if (!types.isNativeError(error)) {
    return new MediaError('media_internal', 'downloading media: internal failure', {
      cause: error,
    });
  }
  // Node joins the failures of all addresses it tried.
  const first: unknown =
    'errors' in error && Array.isArray(error.errors) ? error.errors[0] : undefined;
  const inner = types.isNativeError(first) ? first : error;
  if (inner.cause instanceof MediaError) {
    return inner.cause;
  }
  const code = codeOf(inner, phase);
  const shown = 'code' in inner ? String(inner.code) : inner.name;
  return new MediaError(code, `downloading media: ${texts[code] ?? 'internal failure'}`, {
    cause: error,
    logDetail: `${what}: ${shown}: ${inner.message}`,
    ...(code === 'media_timeout' && phase === 'body' ? { retryable: false } : {}),
  });
}
