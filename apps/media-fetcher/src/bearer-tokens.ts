import { createHash, timingSafeEqual } from 'node:crypto';

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Tokens that callers may show. Several are known at a time, so that one can be replaced without a gap. */
export class BearerTokens {
  readonly #digests: readonly Buffer[];

  constructor(tokens: readonly string[]) {
    this.#digests = tokens.map(digest);
  }

  /** False when every caller is welcome. */
  get isRequired(): boolean {
    return this.#digests.length > 0;
  }

  /** Whether an `authorization` header holds one of the tokens; takes the same time whichever it is. */
  accepts(header: string | undefined): boolean {
    if (!this.isRequired) return true;
    const token = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1];
    const given = digest(token ?? '');
    let isKnown = false;
    for (const known of this.#digests) isKnown = timingSafeEqual(known, given) || isKnown;
    return isKnown && token !== undefined;
  }
}
