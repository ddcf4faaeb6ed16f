/** Requests that the debug listener remembers. */
const maxRequests = 256;

/** The last finished requests by id; a repeated id stands for its last request. */
export class RecentRequests {
  readonly #byId = new Map<string, object>();

  add(requestId: string, request: object): void {
    this.#byId.delete(requestId);
    this.#byId.set(requestId, request);
    if (this.#byId.size > maxRequests) {
      const [oldest] = this.#byId.keys();
      if (oldest !== undefined) this.#byId.delete(oldest);
    }
  }

  get(requestId: string): object | undefined {
    return this.#byId.get(requestId);
  }
}
