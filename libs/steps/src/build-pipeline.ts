import { maskSecrets } from '@llm-d/config';
import { UpstreamClient, type UpstreamOptions } from '@llm-d/gateway';
import {
  Background,
  type NamedStep,
  Pipeline,
  type StepConfig,
  type StepDefinition,
  type StepDependencies,
  StepRegistry,
} from '@llm-d/pipeline';
import { type BatchOptions, runEachPrompt } from './batch/run-batch.ts';
import { asyncBroker } from './async/async-broker.ts';
import { withoutClientTransferParams } from './client-transfer-params.ts';
import { conditionalDecode } from './conditional-decode.ts';
import { decode } from './decode.ts';
import { encode } from './encode.ts';
import { prefill } from './prefill.ts';
import { prefillDecode } from './prefill-decode.ts';
import { render } from './render.ts';
import { replaceMediaUrls } from './replace-media-urls.ts';
import { checkStatelessResponse } from './stateless-response.ts';

/** The steps that come with the coordinator. */
export const builtInSteps: readonly StepDefinition[] = [
  asyncBroker,
  replaceMediaUrls,
  render,
  conditionalDecode,
  encode,
  prefill,
  decode,
  prefillDecode,
];

/** What a pipeline is built from. */
export interface PipelineOptions
  extends Omit<StepDependencies, 'openUpstream' | 'hasTokensInLegs' | 'background'>, BatchOptions {
  readonly steps: readonly StepConfig[];
  /** Closed with the pipeline. */
  readonly gateway: UpstreamClient;
  /** Further kinds of steps. */
  readonly definitions?: readonly StepDefinition[];
  /** Told of parameters that a step does not know. */
  readonly onUnknownParam: (step: string, key: string, known: readonly string[]) => void;
}

/**
 * Makes the pipeline of a deployment and opens the connections to its side services.
 *
 * @throws Error with a message for the operator when the steps cannot work.
 */
export function buildPipeline(options: PipelineOptions): Pipeline {
  const { steps, gateway, definitions = [], onUnknownParam, ...dependencies } = options;
  const registry = new StepRegistry([...builtInSteps, ...definitions]);
  const clients = [gateway];
  const openUpstream = (upstream: UpstreamOptions): UpstreamClient => {
    const client = new UpstreamClient(upstream);
    clients.push(client);
    return client;
  };
  const background = new Background();
  const hasTokensInLegs = steps.some(isTokensIn);
  const all: StepDependencies = {
    ...dependencies,
    openUpstream,
    background,
    gateway,
    hasTokensInLegs,
  };
  const built = steps.map((step) =>
    registry.build(step, all, (key, known) => onUnknownParam(step.type, key, known), maskSecrets),
  );
  checkOrder(steps, built);
  return new Pipeline(built, {
    background,
    prepare(ctx) {
      checkStatelessResponse(ctx);
      if (!dependencies.trustsClientTransferParams) {
        const clean = withoutClientTransferParams(ctx.body);
        if (clean !== ctx.body) ctx.log.debug({}, 'transfer params of the client were dropped');
        ctx.body = clean;
      }
    },
    spread: runEachPrompt(options),
    close: async () => {
      await Promise.all(clients.map((client) => client.close()));
    },
  });
}

const isTokensIn = ({ params }: StepConfig): boolean => params?.['use_openai_format'] === false;

function checkOrder(steps: readonly StepConfig[], built: readonly NamedStep[]): void {
  if (!built.some(({ isTerminal }) => isTerminal)) {
    throw new Error('pipeline.steps: expected a step that answers the client, such as decode');
  }
  const late = built.findLastIndex(({ isEntrance }) => isEntrance);
  if (late > 0 && !built[late - 1]?.isEntrance) {
    throw new Error(`pipeline.steps: expected ${built[late]?.type} as the first step`);
  }
  const renderAt = steps.findIndex(({ type }) => type === render.type);
  const mediaAt = steps.findIndex(({ type }) => type === replaceMediaUrls.type);
  if (renderAt >= 0 && mediaAt > renderAt) {
    // Render would answer about images that no step has seen.
    throw new Error('pipeline.steps: expected replace-media-urls before render');
  }
  const tokensInAt = steps.findIndex(isTokensIn);
  if (tokensInAt >= 0 && (renderAt < 0 || renderAt > tokensInAt)) {
    throw new Error(
      `pipeline.steps: ${steps[tokensInAt]?.type} has use_openai_format: false and needs a render step before it`,
    );
  }
}
