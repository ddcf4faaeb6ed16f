import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Leg } from '@llm-d/gateway-sim';
import { type Pod, type Stack, type StackOptions, startStack } from '@llm-d/local-stack';
import { until } from '@llm-d/soak';
import { type EngineState, type RecordedRequest } from '@llm-d/worker-sim';
import { ask } from './ask.ts';
import { jsonOf } from './openai.ts';

/** One worker of each role: enough where nothing is chosen. */
export const onePodEach = { encode: 1, prefill: 1, decode: 1 };

/** A request as a worker recorded it, and which worker it was. */
export interface PodRecord extends RecordedRequest {
  readonly pod: string;
  readonly role: Pod['role'];
}

/** One line of a coordinator's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly request_id?: string;
  readonly outcome?: string;
  readonly status?: number;
  readonly code?: string;
  readonly step?: string;
}

/** A running stack in a folder of its own, with what its processes know about it. */
export interface TestStack extends Stack {
  /** Calls of the phases in the order in which they ended, of one request or of all. */
  legs(requestId?: string): Promise<Leg[]>;
  /** What the workers recorded of a request, of all roles or of one. */
  records(requestId: string, role?: Pod['role']): Promise<PodRecord[]>;
  /** Changes run-time options (faults, latency) of all workers of a role. */
  configure(role: Pod['role'], patch: object): Promise<void>;
  states(): Promise<EngineState[]>;
  /** The log of a coordinator so far. */
  log(coordinator?: string): LogLine[];
  /** Waits for the line that a coordinator writes when a request is over. */
  summary(requestId: string, coordinator?: string): Promise<LogLine>;
}

/** Starts a stack; its folder goes when it stops. */
export async function startTestStack(
  options: Omit<StackOptions, 'directory'> = {},
): Promise<TestStack> {
  const directory = mkdtempSync(join(tmpdir(), 'e2e-'));
  const stack = await startStack({ directory, ...options });
  const { pods, children, gatewayAdminUrl } = stack;

  const get = async <T>(url: string, path: string): Promise<T> =>
    jsonOf<T>(await ask(url, { method: 'GET', path }));
  const log = (coordinator = 'coordinator'): LogLine[] =>
    readFileSync(children.logFile(coordinator), 'utf8')
      .split('\n')
      // The last line may be half written.
      .slice(0, -1)
      .map((line) => JSON.parse(line) as LogLine);

  return {
    ...stack,
    log,
    async legs(requestId) {
      const query = requestId === undefined ? '' : `?request_id=${requestId}`;
      const { picks } = await get<{ picks: Leg[] }>(gatewayAdminUrl, `/picks${query}`);
      return picks.filter(({ leg }) => leg === 'phase');
    },
    async records(requestId, onlyRole) {
      const lists = await Promise.all(
        pods
          .filter(({ role }) => onlyRole === undefined || role === onlyRole)
          .map(async ({ name: pod, role, url }) => {
            const path = `/admin/requests?request_id=${requestId}`;
            const { requests } = await get<{ requests: RecordedRequest[] }>(url, path);
            return requests.map((record): PodRecord => ({ ...record, pod, role }));
          }),
      );
      return lists.flat();
    },
    async configure(role, patch) {
      for (const pod of pods) {
        if (pod.role !== role) continue;
        const answer = await ask(pod.url, { path: '/admin/config', body: patch });
        if (answer.status !== 200) throw new Error(answer.body.toString('utf8'));
      }
    },
    states: () => Promise.all(pods.map(({ url }) => get<EngineState>(url, '/admin/state'))),
    summary: (requestId, coordinator) =>
      until(`the summary of ${requestId}`, () =>
        log(coordinator).find(({ msg, request_id: id }) => msg === 'request' && id === requestId),
      ),
    async stop() {
      await stack.stop();
      rmSync(directory, { recursive: true });
    },
  };
}
