import { Controller, Get, Inject, Query, Res } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { Lifecycle } from './lifecycle.ts';

/** Asks one dependency whether it can be used; rejects with the reason when it cannot. */
export type DependencyCheck = () => Promise<unknown>;

/** What a service adds to its readiness, at the moment of the probe; to be told without a wait. */
export interface Readiness {
  /** Takes the place of `ok` and makes the probe answer 503. */
  readonly unready?: string | undefined;
  /** Why it cannot take work although it runs, each with what mends it; any makes the probe answer 503. */
  readonly problems?: readonly string[];
  /** Shown beside the status, whatever it is; the answer is JSON then. */
  readonly facts?: Readonly<Record<string, string>>;
}

/** Name of the function that tells it, injected into the controller. */
export const readinessCheck = Symbol('readinessCheck');

/** Name of the dependencies that `/readyz?verbose` shows, injected into the controller. */
export const dependencyChecks = Symbol('dependencyChecks');

/** Paths that are answered whatever the process is busy with. */
export const probePaths: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz']);

/** Longest wait for one dependency, so that a probe never hangs on a dead peer. */
const checkTimeoutMs = 1_000;

/** Whether a request's URL is that of a probe, in any of the spellings that are served. */
export function isProbe(url: string): boolean {
  if (!url.includes('/health') && !url.includes('/readyz')) return false;
  const path = (url.split('?', 1)[0] ?? '').replace(/^\/+/, '/').replace(/\/+$/, '');
  return probePaths.has(path);
}

/**
 * Liveness says that the process runs, readiness that it takes new requests. Neither depends on
 * other services: a dead gateway must not make the platform restart every replica. A service that is nothing without
 * another one has a readiness check.
 */
@Controller()
export class HealthController {
  readonly #lifecycle: Lifecycle;
  readonly #checks: Readonly<Record<string, DependencyCheck>>;
  readonly #readiness: () => Readiness;

  constructor(
    lifecycle: Lifecycle,
    @Inject(dependencyChecks) checks: Readonly<Record<string, DependencyCheck>>,
    @Inject(readinessCheck) readiness: () => Readiness,
  ) {
    this.#lifecycle = lifecycle;
    this.#checks = checks;
    this.#readiness = readiness;
  }

  /** `/health` is the path that load generators wait for. */
  @Get(['/healthz', '/health'])
  live(): string {
    return 'ok';
  }

  @Get('/readyz')
  async ready(@Query('verbose') verbose: unknown, @Res() reply: FastifyReply): Promise<void> {
    const { unready, problems = [], facts } = this.#readiness();
    const running = unready ?? (problems.length > 0 ? 'not ready' : 'ok');
    const status = this.#lifecycle.isDraining ? 'draining' : running;
    void reply.code(status === 'ok' ? 200 : 503);
    const told = { status, ...facts, ...(problems.length > 0 && { problems }) };
    if (verbose !== undefined) {
      await reply.send({ ...told, dependencies: await this.#dependencies() });
    } else if (facts) await reply.send(told);
    else await reply.send([status, ...problems].join('\n'));
  }

  async #dependencies(): Promise<Record<string, string>> {
    const states = Object.entries(this.#checks).map(async ([name, check]) => {
      const isUp = await Promise.race([
        check().then(
          () => 'up',
          () => 'down',
        ),
        timeout(checkTimeoutMs),
      ]);
      return [name, isUp] as const;
    });
    return Object.fromEntries(await Promise.all(states));
  }
}

function timeout(milliseconds: number): Promise<string> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds, 'no answer').unref();
  });
}
