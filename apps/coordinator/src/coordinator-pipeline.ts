import { ConfigError, type CoordinatorConfig, nearestName, stepsWithDefaults } from '@llm-d/config';
import { UpstreamClient, type UpstreamOptions } from '@llm-d/gateway';
import {
  type AsyncHost,
  type HandoffListener,
  headerPolicy,
  type Logger,
  type MediaSource,
  type Pipeline,
  type StepDefinition,
} from '@llm-d/pipeline';
import { buildPipeline, defaultBootstrapPort } from '@llm-d/steps';

const connectTimeoutMs = 30_000;
/** What an answer that is read here may take after its headers. */
const bodyGraceMs = 60_000;
/** Answers of encode and prefill are small; a larger one is a fault. */
const maxAnswerBytes = 64 * 1024 * 1024;

/** A pipeline and what the author of its configuration should hear. */
export interface ConfiguredPipeline {
  readonly pipeline: Pipeline;
  /** The connections of all legs; the pipeline closes them. */
  readonly gateway: UpstreamClient;
  readonly warnings: readonly string[];
}

/** Builds the configured pipeline. Throws a ConfigError when its steps cannot work. */
export function configurePipeline(
  config: CoordinatorConfig,
  media: MediaSource,
  log: Logger,
  onHandoff: HandoffListener,
  bootstrapPort: number = defaultBootstrapPort,
  definitions: readonly StepDefinition[] = [],
  asyncHost?: AsyncHost,
): ConfiguredPipeline {
  const { pipeline, server } = config;
  const gateway = new UpstreamClient(gatewayUpstream(config.gateway));
  const warnings: string[] = [];
  checkForwardedNames(pipeline.forwardResponseHeaders, [
    pipeline.wire.phaseHeader,
    pipeline.wire.pinHeader,
  ]);
  try {
    const built = buildPipeline({
      steps: stepsWithDefaults(pipeline),
      definitions,
      gateway,
      media,
      log,
      wire: pipeline.wire,
      kvLeaseMs: pipeline.kvLeaseMs,
      kvMultiSequence: pipeline.kvMultiSequence,
      bootstrapPort,
      kvRelease: pipeline.kvRelease,
      onHandoff,
      asyncHost,
      trustsClientTransferParams: pipeline.trustsClientTransferParams,
      maxBatchSize: pipeline.maxBatchSize,
      maxBatchParallel: pipeline.maxBatchParallel,
      upstreamErrors: server.upstreamErrors,
      forwardResponseHeaders: pipeline.forwardResponseHeaders,
      onUnknownParam: (step, key, known) => {
        const nearest = nearestName(key, known);
        warnings.push(
          `pipeline.steps: ${step}: ${key}: unknown key${nearest ? `, did you mean ${nearest}?` : ''}`,
        );
      },
    });
    return { pipeline: built, gateway, warnings };
  } catch (error) {
    // Whatever keeps a pipeline from being built is told to the operator in its message.
    throw new ConfigError([(error as Error).message], { cause: error });
  }
}

/** How the gateway is called. */
function gatewayUpstream(gateway: CoordinatorConfig['gateway']): UpstreamOptions {
  return {
    address: gateway.address,
    connectTimeoutMs,
    headersTimeoutMs: gateway.timeoutMs,
    bodyTimeoutMs: gateway.streamIdleTimeoutMs,
    callTimeoutMs: gateway.timeoutMs === 0 ? 0 : gateway.timeoutMs + bodyGraceMs,
    idleTimeoutMs: gateway.idleConnectionTimeoutMs,
    maxIdleConnections: gateway.maxIdleConnectionsPerHost,
    maxAnswerBytes,
  };
}

/** A header that no leg carries from the client cannot be carried from one phase to the next. */
function checkForwardedNames(names: readonly string[], reserved: readonly string[]): void {
  const { removed } = headerPolicy({ reserved });
  const problems = names
    .filter((name) => removed.has(name))
    .map(
      (name) =>
        `pipeline.forward_response_headers: expected headers that legs may carry, got "${name}"`,
    );
  if (problems.length > 0) throw new ConfigError(problems);
}
