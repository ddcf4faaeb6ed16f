import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { loadConfig } from '@llm-d/config';
import { mediaSettings } from '@llm-d/media';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';
import {
  type Answer,
  type RecordedCall,
  type ScriptedServer,
  scriptedServer,
} from '@llm-d/testing';
import { type AppOptions, type Coordinator, createApp } from './app.ts';

type Phase = 'render' | 'conditional-decode' | 'encode' | 'prefill' | 'decode';
type Mapping = Record<string, unknown>;

const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';

/** A question about one picture, so that every phase has its part. */
export const pictureChat = {
  model: 'm',
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'look' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } },
      ],
    },
  ],
};

/** What a prefill worker answers, with a whole hand-off. */
export const prefilled = {
  kv_transfer_params: {
    remote_block_ids: [[4, 5]],
    remote_engine_id: 'e',
    remote_request_id: 'r',
    remote_host: '10.0.0.1',
    remote_port: 5600,
  },
};

const standard: Record<Phase, Answer> = {
  render: {
    json: {
      token_ids: [1, 2345, 6789],
      features: {
        mm_hashes: { image: ['h'] },
        mm_placeholders: { image: [{ offset: 1, length: 1 }] },
        kwargs_data: { image: [null] },
      },
    },
  },
  'conditional-decode': { status: 412, text: 'not here' },
  encode: { json: {} },
  prefill: { json: prefilled },
  decode: { json: { id: 'x', choices: [] } },
};

/** What a client got. */
export interface ClientAnswer {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly bytes: Buffer;
  readonly text: string;
}

/** A coordinator in this process, whose gateway and render service play one script for each phase. */
export class TestCoordinator {
  readonly gateway: ScriptedServer;
  readonly renderService: ScriptedServer;
  /** Lines of the log so far. */
  readonly lines: Mapping[] = [];
  readonly #directory = mkdtempSync(join(tmpdir(), 'coordinator-'));
  #coordinator: Coordinator | undefined;
  #running: RunningService | undefined;

  private constructor(gateway: ScriptedServer, renderService: ScriptedServer) {
    this.gateway = gateway;
    this.renderService = renderService;
    this.play({});
  }

  static async open(): Promise<TestCoordinator> {
    return new TestCoordinator(await scriptedServer(), await scriptedServer());
  }

  get url(): string {
    if (!this.#running) throw new Error('not started');
    return this.#running.url;
  }

  /** Starts it with sections of a configuration. */
  async start(
    sections: { server?: Mapping; gateway?: Mapping; pipeline?: Mapping; media?: Mapping } = {},
    options: Pick<AppOptions, 'media' | 'definitions'> = {},
  ) {
    const file = join(this.#directory, 'coordinator.yaml');
    const steps = [
      { type: 'replace-media-urls' },
      { type: 'render', params: { address: this.renderService.url } },
      ...['encode', 'prefill', 'decode'].map((type) => ({ type })),
    ];
    const config = {
      server: { max_request_body_size: 1, ...sections.server },
      gateway: { address: this.gateway.url, ...sections.gateway },
      pipeline: { kv_connector: 'kv-nixl', steps, ...sections.pipeline },
      media: sections.media,
    };
    writeFileSync(file, JSON.stringify(config));
    const logger = createLogger({
      service: 'test',
      level: 2,
      destination: { write: (line) => this.lines.push(JSON.parse(line) as Mapping) },
    });
    const loaded = loadConfig({ file }).config;
    this.#coordinator = await createApp({
      config: loaded,
      logger,
      ...options,
      media: { ...mediaSettings(loaded.media, {}), ...options.media },
    });
    this.#running = await startService(this.#coordinator.service, {
      host: '127.0.0.1',
      port: 0,
      logger,
      shutdownTimeoutMs: 5_000,
    });
  }

  /** The metrics as a scraper reads them. */
  async metrics(): Promise<string> {
    const text = await this.#coordinator?.metrics.text(undefined);
    return text?.body ?? '';
  }

  /** Samples whose name, with labels, begins with the text; without buckets. */
  async samples(prefix: string): Promise<Record<string, number>> {
    const body = await this.metrics();
    const lines = body.split('\n').filter((line) => line.startsWith(prefix));
    const pairs = lines
      .filter((line) => !line.includes('_bucket'))
      .map((line) => line.split(/ (?=\S+$)/));
    return Object.fromEntries(pairs.map(([name = '', value]) => [name, Number(value)]));
  }

  /** Answers by phase from the next call on; phases that are left out answer well. */
  play(phases: Partial<Record<Phase, Answer | ((call: RecordedCall) => Answer)>>): void {
    const choose = (call: RecordedCall): Answer => {
      const phase = phaseOf(call);
      const script = phases[phase] ?? standard[phase];
      return typeof script === 'function' ? script(call) : script;
    };
    this.gateway.play(choose);
    this.renderService.play(choose);
  }

  /** Calls of a phase in order of arrival. */
  legs(phase: Phase): RecordedCall[] {
    return [...this.renderService.calls, ...this.gateway.calls].filter(
      (call) => phaseOf(call) === phase,
    );
  }

  /** Sends a request; an object is sent as JSON. */
  async ask(
    body: unknown,
    options: { path?: string; method?: string; headers?: Record<string, string | string[]> } = {},
  ): Promise<ClientAnswer> {
    const { path = '/v1/chat/completions', method = 'POST', headers = {} } = options;
    const call = httpRequest(this.url + path, { method, headers, agent: false });
    const isBytes = typeof body === 'string' || Buffer.isBuffer(body) || body === undefined;
    call.end(isBytes ? body : JSON.stringify(body));
    const [message] = (await once(call, 'response')) as [IncomingMessage];
    const pieces: Buffer[] = [];
    for await (const piece of message) pieces.push(piece as Buffer);
    const bytes = Buffer.concat(pieces);
    return {
      status: message.statusCode,
      headers: message.headers,
      bytes,
      text: bytes.toString('utf8'),
    };
  }

  /** The `request` line of the log, once it is written. */
  async summary(requestId: string): Promise<Mapping> {
    for (;;) {
      const line = this.lines.find((found) => {
        return found['msg'] === 'request' && found['request_id'] === requestId;
      });
      if (line) return line;
      await nextTurn();
    }
  }

  /** Drains it and stops listening. */
  async stop(): Promise<void> {
    await this.#running?.stop();
  }

  async close(): Promise<void> {
    await this.stop();
    await this.#coordinator?.close();
    await Promise.all([this.gateway.close(), this.renderService.close()]);
    rmSync(this.#directory, { recursive: true });
  }
}

function phaseOf({ path, headers }: RecordedCall): Phase {
  if (path.endsWith('/render')) return 'render';
  if (headers['prefer']) return 'conditional-decode';
  return headers['epp-profile']?.[0] as Phase;
}
