import { type CoordinatorConfig } from '@llm-d/config';
import { type DependencyCheck } from '@llm-d/service';
import { type Logger } from '@llm-d/telemetry';
import { canConnect } from './can-connect.ts';
import { probeMediaFetcher } from './probe-media-fetcher.ts';

/** Somebody at the other end, without whom requests fail. */
interface Dependency {
  /** The key that has its address. */
  readonly key: string;
  /** Rejects when nobody is there. */
  readonly check: DependencyCheck;
}

/** What the coordinator of a configuration calls, by the names that `/readyz?verbose` shows. */
export function dependencies({ gateway, pipeline }: CoordinatorConfig): Record<string, Dependency> {
  const found: Record<string, Dependency> = {
    gateway: { key: 'gateway.address', check: () => canConnect(gateway.address) },
  };
  for (const [index, { type, params }] of pipeline.steps.entries()) {
    const { address, mode } = params;
    if (typeof address !== 'string') continue;
    const key = `pipeline.steps[${index}].params.address`;
    if (type === 'render') found['render'] = { key, check: () => canConnect(address) };
    else if (type === 'replace-media-urls' && mode === 'remote') {
      found['media-fetcher'] = { key, check: () => probeMediaFetcher(address) };
    }
  }
  return found;
}

/** Warns of everybody who is not there, by the key that may be the mistake. */
export async function warnOfAbsent(config: CoordinatorConfig, logger: Logger): Promise<void> {
  const checks = Object.entries(dependencies(config)).map(async ([name, { key, check }]) => {
    try {
      await check();
    } catch {
      logger.warn({ dependency: name }, `${key}: nobody answers there`);
    }
  });
  await Promise.all(checks);
}
