import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CascadeCase } from './cascade-cases.ts';

/** A leg that the stub was asked for. */
export interface SeenLeg {
  /** `render` or the phase. */
  readonly name: string;
  readonly body: Buffer;
}

/** Render service and gateway in one: answers every leg with prebuilt bytes. */
export class StubUpstream {
  /** The case whose answers are given. */
  current: CascadeCase | undefined;
  /** Legs are kept here while it is set; timing runs without. */
  seen: SeenLeg[] | undefined;
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  /** Event streams that have begun and not ended. */
  openStreams = 0;
  #encodeLegs = 0;

  /** Listens on a free port of the loopback and resolves with the address. */
  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === '/v1/traces') {
      request.resume();
      response.end();
      return;
    }
    const phase = request.headers['epp-profile'] ?? request.headers['x-llm-d-epp-profile'];
    const name = request.url?.endsWith('/render') ? 'render' : String(phase);
    if (this.seen) {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      this.seen.push({ name, body: Buffer.concat(chunks) });
    } else {
      request.resume();
      await once(request, 'end');
    }
    const chunks = this.#answer(name);
    if (chunks.length === 1) {
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-length': chunks[0]?.length ?? 0,
      });
      response.end(chunks[0]);
    } else {
      this.openStreams++;
      await stream(response, chunks, this.current?.chunkMs ?? 1);
      this.openStreams--;
    }
  }

  #answer(name: string): readonly Buffer[] {
    const answers = this.current?.answers;
    switch (name) {
      case 'render':
      case 'prefill':
        return answers ? [answers[name]] : [];
      case 'encode': {
        const answer = answers?.encode[this.#encodeLegs++ % answers.encode.length];
        return answer ? [answer] : [];
      }
      default:
        return answers?.decode ?? [];
    }
  }
}

/** Writes each chunk alone, as tokens come from a worker. */
async function stream(
  response: ServerResponse,
  chunks: readonly Buffer[],
  chunkMs: number,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  response.flushHeaders();
  for (const chunk of chunks) {
    if (response.destroyed) return;
    response.write(chunk);
    await sleep(chunkMs);
  }
  response.end();
}
