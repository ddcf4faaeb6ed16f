import { type EndedItem } from './ended-item.ts';
import { type MediaError, type MediaErrorCode } from './media-error.ts';
import { namedHost, redactedName } from './redact.ts';

/** Where lines go; a pino logger and that of a request fit. */
export interface LineLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Failures that the address rules are about: an operator wants to know of them. */
const audited: ReadonlySet<MediaErrorCode> = new Set<MediaErrorCode>([
  'media_address_blocked',
  'media_redirect_blocked',
]);
/** Warnings about them in one second; whoever tries addresses must not fill the log. The rest is at level info. */
const maxWarnings = 10;

/**
 * Writes one line for each item (media-fetcher.md 11). Of a URL it shows host and last path segment, never its query or
 * credentials, nor a byte of what came. One for a process: it counts the warnings.
 */
export class MediaLog {
  #warnedSecond = 0;
  #warnings = 0;

  /** A line for each position of the item; `more` goes on all of them. */
  itemEnded(log: LineLog, item: EndedItem, more: object = {}): void {
    const { ref, indices, result, error, durationMs } = item;
    const { modality, url } = ref;
    const what = { modality, host: namedHost(url), name: redactedName(url) };
    const ms = Math.round(durationMs);
    for (const index of indices) {
      const about = { ...more, index, ...what };
      if (error) {
        this.failed(log, error, { ...about, ms });
      } else if (result) {
        const { origin, cache } = result.facts;
        const { byteLength: bytes, contentType } = result;
        const came = { bytes, content_type: contentType, cache: cache?.status };
        const how = { status: origin?.status, hops: origin?.redirects };
        log.info({ ...about, ...came, ...how, ms }, 'fetched');
      }
    }
  }

  /** A line about a failure; with `media_internal` the log gets its cause. */
  failed(log: LineLog, error: MediaError, about: object): void {
    const { code, causeCode, hop, originStatus, logDetail } = error;
    const why = { code, cause_code: causeCode, hop, status: originStatus, detail: logDetail };
    const fields = { ...about, ...why };
    if (code === 'media_internal') log.error({ ...fields, err: error.cause }, 'not fetched');
    else if (audited.has(code) && this.#mayWarn()) log.warn(fields, 'not fetched');
    else log.info(fields, 'not fetched');
  }

  #mayWarn(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (second !== this.#warnedSecond) [this.#warnedSecond, this.#warnings] = [second, 0];
    return ++this.#warnings <= maxWarnings;
  }
}
