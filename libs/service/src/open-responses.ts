import { type Server, type ServerResponse } from 'node:http';
import { OpenItems } from '@llm-d/pipeline';

/** The answers of a server that have not ended, for its drain. */
export class OpenResponses {
  readonly #open = new OpenItems<ServerResponse>();
  #isLast = false;

  /** Follows a server from its first request on, and keeps its idle sweep from cutting the tails of answers. */
  constructor(server: Server) {
    server.prependListener('request', (_request, response: ServerResponse) => {
      response.once('close', this.#open.add(response));
      if (this.#isLast) response.shouldKeepAlive = false;
    });
    // Node takes a connection for idle whose answer is written but not yet taken by a slow client.
    const closeIdle = server.closeIdleConnections.bind(server);
    server.closeIdleConnections = () => {
      if (!this.#areFlushing()) closeIdle();
    };
  }

  /** Has every answer whose headers are not sent tell its connection to close. */
  lastOfConnections(): void {
    this.#isLast = true;
    for (const response of this.#open.all()) response.shouldKeepAlive = false;
  }

  #areFlushing(): boolean {
    for (const { writableEnded, writableFinished } of this.#open.all()) {
      if (writableEnded && !writableFinished) return true;
    }
    return false;
  }
}
