import { Controller, Get, Inject, Query, Res } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { Lifecycle } from './lifecycle.ts';

/** Asks one dependency whether it can be used; rejects with the reason when it cannot. */
export type DependencyCheck = () => Promise<unknown>;

/** Name of the dependencies that `/readyz?verbose` shows, injected into the controller. */
export const dependencyChecks = Symbol('dependencyChecks');

/** Says why a service cannot take work although it runs; empty when it can. Asked at every probe, so it must be cheap. */
export type ReadinessCheck = () => readonly string[];

/** Name of the check that `/readyz` asks, injected into the controller. */
export const readinessCheck = Symbol('readinessCheck');

/** Paths that are answered whatever the process is busy with. */
export const probePaths: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz']);

/** Longest wait for one dependency, so that a probe never hangs on a dead peer. */
const checkTimeoutMs = 1_000;

/** Whether a request's URL is that of a probe, in any of the spellings that are served. */
export function isProbe(url: string): boolean {
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
  readonly #readiness: ReadinessCheck;

  constructor(
    lifecycle: Lifecycle,
    @Inject(dependencyChecks) checks: Readonly<Record<string, DependencyCheck>>,
    @Inject(readinessCheck) readiness: ReadinessCheck,
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
    const problems = this.#readiness();
    const running = problems.length > 0 ? 'not ready' : 'ok';
    const status = this.#lifecycle.isDraining ? 'draining' : running;
    void reply.code(status === 'ok' ? 200 : 503);
    if (verbose === undefined) await reply.send([status, ...problems].join('\n'));
    else {
      const dependencies = await this.#dependencies();
      await reply.send({ status, dependencies, ...(problems.length > 0 && { problems }) });
    }
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
