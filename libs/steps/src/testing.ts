import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Phase, UpstreamClient, type UpstreamOptions } from '@llm-d/gateway';
import {
  Background,
  HandoffCounts,
  type MediaSource,
  type Pipeline,
  type Step,
  type StepConfig,
  type StepDefinition,
  type StepDependencies,
  StepRegistry,
  silentLogger,
} from '@llm-d/pipeline';
import { type RecordedCall, scriptedServer, type ScriptedServer } from '@llm-d/testing';
import { buildPipeline } from './build-pipeline.ts';

/** Takes every inline item and has no other; for tests that are not about media. */
export const inlineMedia: MediaSource = {
  checkLimits() {},
  checkUrls() {},
  countRemote() {},
  faultOf: ({ detail }) => new Error(detail),
  checkDataUri: () => 0,
  repairDataUri: () => undefined,
  fetchMany: (references) =>
    references.length === 0
      ? Promise.resolve([])
      : Promise.reject(new Error('no media by URL in this test')),
};

/** A worker's or render service's answer, or a client's request, below `testdata/`. */
export const testdata = (file: string): string =>
  readFileSync(join(import.meta.dirname, 'testdata', file), 'utf8');

/** An answer that is sent as the JSON text stands in `testdata/answers/`. */
export const answerFile = (file: string) => ({
  headers: {
    'content-type': file.endsWith('.sse') ? 'text/event-stream' : 'application/json',
  },
  ...(file.endsWith('.sse')
    ? { chunks: [testdata(`answers/${file}`)] }
    : { text: testdata(`answers/${file}`) }),
});

/** A gateway and a render service that play scripts, and what steps need to call them; for tests of this package. */
export class Rig {
  readonly gateway: ScriptedServer;
  readonly renderService: ScriptedServer;
  readonly background = new Background();
  /** What steps told of hand-offs. */
  readonly handoffs = new HandoffCounts();
  readonly #clients: UpstreamClient[] = [];
  readonly #pipelines: Pipeline[] = [];

  private constructor(gateway: ScriptedServer, renderService: ScriptedServer) {
    this.gateway = gateway;
    this.renderService = renderService;
  }

  static async open(): Promise<Rig> {
    return new Rig(await scriptedServer(), await scriptedServer());
  }

  /** Dependencies of a step with the defaults of the configuration. */
  dependencies(
    overrides: Partial<StepDependencies> & { gatewayOptions?: Partial<UpstreamOptions> } = {},
  ): StepDependencies {
    const { gatewayOptions, ...rest } = overrides;
    return {
      gateway: this.#open({ ...gatewayOptions, address: this.gateway.url }),
      openUpstream: (options) => this.#open(options),
      ...this.#common(),
      ...rest,
    };
  }

  /** One step of a pipeline by its definition; `params` are checked as those of a configuration. */
  step(
    definition: StepDefinition,
    params: Record<string, unknown> = {},
    overrides: Parameters<Rig['dependencies']>[0] = {},
  ): Step {
    const all =
      definition.type === 'render' ? { address: this.renderService.url, ...params } : params;
    const config = { type: definition.type, params: all };
    return new StepRegistry([definition]).build(config, this.dependencies(overrides), (key) => {
      throw new Error(`unknown parameter ${key}`);
    }).run;
  }

  /** A whole pipeline as a configuration would build it. */
  pipeline(
    steps: readonly StepConfig[],
    overrides: Partial<Parameters<typeof buildPipeline>[0]> = {},
  ): Pipeline {
    const pipeline = buildPipeline({
      steps: steps.map(({ type, params }) =>
        type === 'render'
          ? { type, params: { address: this.renderService.url, ...params } }
          : { type, params },
      ),
      gateway: this.#open({ address: this.gateway.url }),
      maxBatchSize: 64,
      maxBatchParallel: 8,
      onUnknownParam: (step, key) => {
        throw new Error(`unknown parameter ${step}.${key}`);
      },
      ...this.#common(),
      ...overrides,
    });
    this.#pipelines.push(pipeline);
    return pipeline;
  }

  /** Calls that the gateway got for a phase, in order of arrival. */
  legs(phase: Phase): RecordedCall[] {
    return this.gateway.calls.filter(({ headers }) => headers['epp-profile']?.[0] === phase);
  }

  /** The bodies of these calls as values. */
  bodies(phase: Phase): Record<string, unknown>[] {
    return this.legs(phase).map((call) => call.json() as Record<string, unknown>);
  }

  async close(): Promise<void> {
    await this.background.close();
    await Promise.all(this.#clients.map((client) => client.destroy()));
    await Promise.all([this.gateway.close(), this.renderService.close()]);
    await Promise.all(this.#pipelines.map((pipeline) => pipeline.close()));
  }

  #common(): Omit<StepDependencies, 'gateway' | 'openUpstream'> {
    return {
      media: inlineMedia,
      hasTokensInLegs: false,
      wire: {
        phaseHeader: 'EPP-Profile',
        generateTransferParams: 'top-level',
        hasChatTokens: false,
        legRequestId: 'shared',
        pinHeader: 'x-prefill-pin-host-port',
      },
      bootstrapPort: 8998,
      kvLeaseMs: 30_000,
      kvMultiSequence: 'local',
      kvRelease: 'decode',
      onHandoff: this.handoffs.count,
      background: this.background,
      trustsClientTransferParams: false,
      upstreamErrors: 'hide',
      forwardResponseHeaders: [],
      log: silentLogger,
    };
  }

  #open(options: Partial<UpstreamOptions> & { address: string }): UpstreamClient {
    const client = new UpstreamClient({ ...generousLimits, ...options });
    this.#clients.push(client);
    return client;
  }
}

const generousLimits: Omit<UpstreamOptions, 'address'> = {
  connectTimeoutMs: 5_000,
  headersTimeoutMs: 0,
  bodyTimeoutMs: 0,
  callTimeoutMs: 0,
  idleTimeoutMs: 30_000,
  maxAnswerBytes: 1_048_576,
};

/** The wire of the seed era. */
export const seedWire: StepDependencies['wire'] = {
  phaseHeader: 'EPP-Profile',
  generateTransferParams: 'extra-args',
  hasChatTokens: true,
  legRequestId: 'shared',
  pinHeader: 'x-prefill-pin-host-port',
};

/** One item as a media fetcher sends it. */
export function frame(
  bytes: Uint8Array = Buffer.alloc(0),
  type = 'image/png',
  byteLength = bytes.length,
): Buffer {
  const header = Buffer.from(JSON.stringify({ content_type: type, byte_length: byteLength }));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(header.length);
  return Buffer.concat([head, header, bytes]);
}
