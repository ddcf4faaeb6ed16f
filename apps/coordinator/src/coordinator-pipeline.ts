import { ConfigError, type CoordinatorConfig, nearestName, stepsWithDefaults } from '@llm-d/config';
import { type UpstreamOptions } from '@llm-d/gateway';
import { headerPolicy, type Logger, type MediaSource, type Pipeline } from '@llm-d/pipeline';
import { buildPipeline } from '@llm-d/steps';

const connectTimeoutMs = 30_000;
/** What an answer that is read here may take after its headers. */
const bodyGraceMs = 60_000;
/** Answers of encode and prefill are small; a larger one is a fault. */
const maxAnswerBytes = 64 * 1024 * 1024;

/** A pipeline and what the author of its configuration should hear. */
export interface ConfiguredPipeline {
  readonly pipeline: Pipeline;
  readonly warnings: readonly string[];
}

/** Builds the configured pipeline. Throws a ConfigError when its steps cannot work. */
export function configurePipeline(
  config: CoordinatorConfig,
  media: MediaSource,
  log: Logger,
): ConfiguredPipeline {
  const { gateway, pipeline, server } = config;
  const warnings: string[] = [];
  checkForwardedNames(pipeline.forwardResponseHeaders, pipeline.wire.phaseHeader);
  try {
    const built = buildPipeline({
      steps: stepsWithDefaults(pipeline),
      gateway: gatewayUpstream(gateway),
      media,
      log,
      wire: pipeline.wire,
      kvLeaseMs: pipeline.kvLeaseMs,
      kvMultiSequence: pipeline.kvMultiSequence,
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
    return { pipeline: built, warnings };
  } catch (error) {
    // Whatever keeps a pipeline from being built is told to the operator in its message.
    throw new ConfigError([(error as Error).message], { cause: error });
  }
}

/** How the gateway is called. */
export function gatewayUpstream(gateway: CoordinatorConfig['gateway']): UpstreamOptions {
  return {
    address: gateway.address,
    connectTimeoutMs,
    headersTimeoutMs: gateway.timeoutMs,
    // Tokens of a stream may be far apart.
    bodyTimeoutMs: 0,
    callTimeoutMs: gateway.timeoutMs === 0 ? 0 : gateway.timeoutMs + bodyGraceMs,
    idleTimeoutMs: gateway.idleConnectionTimeoutMs,
    maxAnswerBytes,
  };
}

/** A header that no leg carries from the client cannot be carried from one phase to the next. */
function checkForwardedNames(names: readonly string[], phaseHeader: string): void {
  const { removed } = headerPolicy({ reserved: [phaseHeader] });
  const problems = names
    .filter((name) => removed.has(name))
    .map(
      (name) =>
        `pipeline.forward_response_headers: expected headers that legs may carry, got "${name}"`,
    );
  if (problems.length > 0) throw new ConfigError(problems);
}
