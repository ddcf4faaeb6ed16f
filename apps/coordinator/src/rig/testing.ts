import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { loadConfig } from '@llm-d/config';
import { type StepDefinition } from '@llm-d/pipeline';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger, type LogLevel } from '@llm-d/telemetry';
import { type Answer, type ScriptedServer, scriptedServer } from '@llm-d/testing';
import { type Coordinator, createApp } from '../app.ts';

/** Answers of the gateway by phase; what is left out is answered well. */
export type Phases = Partial<Record<'encode' | 'prefill' | 'decode' | 'probe', Answer>>;

/** How the coordinator of a rig is configured. */
export interface RigOptions {
  readonly phases?: Phases;
  readonly server?: Record<string, unknown>;
  readonly pipeline?: Record<string, unknown>;
  /** Types of the steps. */
  readonly steps?: readonly string[];
  readonly logLevel?: LogLevel;
  /** Kinds of steps besides those that come with the coordinator. */
  readonly definitions?: readonly StepDefinition[];
}

/** An answer as a client got it. */
export interface Received {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

const defaults: Required<Phases> = {
  encode: { json: { ec_transfer_params: { h: 1 } } },
  prefill: {
    json: {
      kv_transfer_params: {
        remote_block_ids: [[4, 5]],
        remote_engine_id: 'e',
        remote_request_id: 'r',
        remote_host: '10.0.0.1',
        remote_port: 5600,
      },
    },
  },
  decode: { text: '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}' },
  probe: { status: 412 },
};

/** A coordinator between a gateway and a render service that play scripts; for tests of this app. */
export class TestRig {
  readonly gateway: ScriptedServer;
  readonly render: ScriptedServer;
  readonly coordinator: Coordinator;
  readonly service: RunningService;
  /** Everything that was logged. */
  readonly lines: readonly Record<string, unknown>[];
  readonly #directory: string;

  private constructor(parts: {
    servers: { gateway: ScriptedServer; render: ScriptedServer };
    coordinator: Coordinator;
    service: RunningService;
    lines: readonly Record<string, unknown>[];
    directory: string;
  }) {
    this.gateway = parts.servers.gateway;
    this.render = parts.servers.render;
    this.coordinator = parts.coordinator;
    this.service = parts.service;
    this.lines = parts.lines;
    this.#directory = parts.directory;
  }

  static async open(options: RigOptions = {}): Promise<TestRig> {
    const { phases = {}, steps = ['render', 'prefill', 'decode'], logLevel = 2 } = options;
    const render = await scriptedServer({ json: { token_ids: [1, 2, 3, 4] } });
    const gateway = await scriptedServer(({ headers }) => {
      const phase = headers['epp-profile']?.[0] as 'encode' | 'prefill' | 'decode';
      const name = headers['prefer'] ? 'probe' : phase;
      return phases[name] ?? defaults[name];
    });
    const directory = mkdtempSync(join(tmpdir(), 'coordinator-'));
    const file = join(directory, 'coordinator.yaml');
    const config = {
      server: options.server ?? {},
      gateway: { address: gateway.url },
      pipeline: {
        kv_connector: 'kv-nixl',
        ec_connector: 'ec-nixl',
        ...options.pipeline,
        steps: steps.map((type) => ({
          type,
          params: type === 'render' ? { address: render.url } : {},
        })),
      },
    };
    writeFileSync(file, JSON.stringify(config));
    const lines: Record<string, unknown>[] = [];
    const logger = createLogger({
      service: 'test',
      level: logLevel,
      destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
    });
    const { definitions = [] } = options;
    const loaded = loadConfig({ file });
    const coordinator = await createApp({ config: loaded.config, logger, definitions });
    const listen = { host: '127.0.0.1', port: 0, logger, shutdownTimeoutMs: 5_000 };
    const service = await startService(coordinator.service, listen);
    return new TestRig({ servers: { gateway, render }, coordinator, service, lines, directory });
  }

  /** Starts a request; its body can be written by the test. */
  begin(headers: Record<string, string> = {}, path = '/v1/chat/completions'): ClientRequest {
    return httpRequest(this.service.url + path, { method: 'POST', headers, agent: false });
  }

  /** Sends a request and reads the whole answer. */
  async post(
    body: unknown,
    headers: Record<string, string> = {},
    path?: string,
  ): Promise<Received> {
    const call = this.begin(headers, path);
    call.end(typeof body === 'string' ? body : JSON.stringify(body));
    const [message] = (await once(call, 'response')) as [IncomingMessage];
    let text = '';
    for await (const piece of message.setEncoding('utf8')) text += String(piece);
    return { status: message.statusCode, headers: message.headers, text };
  }

  /** The `request` line of the log, once it is written. */
  async summary(): Promise<Record<string, unknown>> {
    for (;;) {
      const line = this.lines.find(({ msg }) => msg === 'request');
      if (line) return line;
      await nextTurn();
    }
  }

  /** Samples whose name begins with the text, without buckets and sums of time. */
  async metrics(prefix: string): Promise<Record<string, number>> {
    const { body } = await this.coordinator.metrics.text(undefined);
    const found = body
      .split('\n')
      .filter((line) => line.startsWith(`llm_d_coordinator_${prefix}`))
      .filter((line) => !/_bucket|seconds_sum/.test(line))
      .map((line) => line.slice('llm_d_coordinator_'.length).split(/ (?=\S+$)/));
    return Object.fromEntries(found.map(([name = '', value]) => [name, Number(value)]));
  }

  /** Waits until a sample has a value. */
  async reached(sample: string, value: number): Promise<void> {
    while ((await this.metrics(sample))[sample] !== value) await nextTurn();
  }

  async close(): Promise<void> {
    await this.service.stop();
    await this.coordinator.close();
    await Promise.all([this.gateway.close(), this.render.close()]);
    rmSync(this.#directory, { recursive: true });
  }
}
