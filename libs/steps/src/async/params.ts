import { headerNames, integer, nearestName, oneOf, setting, text, textList } from '@llm-d/config';
import { z } from 'zod';
import { count, flag } from '../params.ts';
import { hardMaxSeconds } from './timeouts.ts';

const seconds = integer(`whole seconds from 0 to ${hardMaxSeconds}`, 0, hardMaxSeconds);
const limit = integer('a positive integer', 1).optional();

const redisUrls = setting(
  'a redis:// or rediss:// URL, or several of a cluster with commas between them',
  (value) => {
    if (typeof value !== 'string' || value === '') return undefined;
    const isUrl = (url: string): boolean =>
      URL.canParse(url) && /^rediss?:$/.test(new URL(url).protocol);
    return value.split(',').every((url) => isUrl(url.trim())) ? value : undefined;
  },
);

/** What BullMQ and Redis Cluster can name a queue. */
const lane = setting('1 to 48 of a-z, 0-9 and -', (value) =>
  typeof value === 'string' && /^[a-z0-9-]{1,48}$/.test(value) ? value : undefined,
);

const timeouts = z.strictObject({
  default_seconds: seconds.prefault(0),
  max_seconds: seconds.prefault(0),
});

const route = z.strictObject({
  model: text.prefault(''),
  tenant: text.prefault(''),
  queue: lane.optional(),
  tier: text.optional(),
});

const objective = z.strictObject({ reserved: text.prefault(''), overflow: text.prefault('') });

/** Defaults of the pipeline section that every step is given. */
const ignored = ['kv_connector', 'ec_connector'];

const shape = {
  redis_url: redisUrls.describe(
    'The Redis of the queue: `redis://host:6379`, `rediss://…` for TLS, or nodes of a cluster with commas between them.',
  ),
  mode_header: headerNames
    .prefault(['x-llm-d-async-mode', 'x-ap-mode'])
    .describe('Headers that choose the mode. All that are sent must say the same.'),
  tenant_header: headerNames
    .prefault(['x-llm-d-tenant', 'x-team'])
    .describe(
      'Headers that name the tenant, and the only source of it: let the gateway in front set them.',
    ),
  timeout_header: headerNames
    .prefault(['x-llm-d-request-timeout-seconds', 'x-request-timeout-seconds'])
    .describe('Headers with the seconds until the deadline.'),
  timeouts: z
    .strictObject({ enqueue: timeouts.prefault({}), wait: timeouts.prefault({}) })
    .prefault({})
    .describe(
      '`{enqueue, wait}`, each `{default_seconds, max_seconds}`; absent: 3600 of at most 86400, and 60 of at most 3600.',
    ),
  wait_cap_seconds: seconds
    .prefault(0)
    .describe('Longest hold of a `wait` (202 after it). 0: until the deadline.'),
  result_ttl_seconds: integer(`seconds from 1 to ${hardMaxSeconds}`, 1, hardMaxSeconds)
    .prefault(3_600)
    .describe('How long a result waits for its first fetch.'),
  fetch_grace_seconds: seconds
    .prefault(60)
    .describe('How long a result stays after each fetch. 0: it is deleted on delivery.'),
  routes: z
    .array(route)
    .prefault([])
    .describe(
      'List of `{model, tenant, queue, tier}`: the first whose model and tenant fit (absent fits all) chooses queue and tier.',
    ),
  default_queue: lane.prefault('request-sortedset').describe('The queue without a route.'),
  default_tier: text
    .prefault('async')
    .describe('The tier without a route: `interactive`, `async` or `batch`; any other is `batch`.'),
  ordering: oneOf('edf', 'fair-edf')
    .prefault('edf')
    .describe(
      'Order within a queue: by deadline, or `fair-edf`: a tenant’s many requests do not stand before another’s first one.',
    ),
  objectives: z
    .record(z.string(), objective)
    .prefault({})
    .describe(
      'By tier `{reserved, overflow}`: names of inference objectives for requests in mode `passthrough`.',
    ),
  priorities: z
    .record(z.string(), integer('a priority', -1_000_000_000, 1_000_000_000))
    .prefault({})
    .describe(
      'Priorities of these objectives, to refuse a start where `overflow` outranks `reserved`.',
    ),
  quota: z
    .strictObject({
      limits: z.record(z.string(), count).prefault({}),
      attribute: text.prefault('userid'),
      window_seconds: seconds.prefault(300),
      compat_counters: flag.prefault(false),
    })
    .prefault({})
    .describe(
      '`{limits}`: requests at once of a tenant that count as reserved; 0 or absent: all. `compat_counters: true` counts as upstream does, in keys of `attribute` (`userid`) that expire after `window_seconds` (300), which have no effect else.',
    ),
  forward_headers: headerNames
    .prefault(['x-llm-d-slo-ttft-ms', 'x-llm-d-slo-tpot-ms'])
    .describe('Client headers that are stored with the request and sent again at its dispatch.'),
  allow_authorization: flag
    .prefault(false)
    .describe('`true`: `authorization` may be one of them. Redis then holds credentials.'),
  id_conflict: oneOf('reject', 'attach')
    .prefault('reject')
    .describe('The same id with another body: 409, or the result of the first body.'),
  rerun_on_retry: textList
    .prefault([])
    .describe('Codes and statuses of stored failures that run again when their id is sent again.'),
  queued_streams: oneOf('accept', 'refuse')
    .prefault('accept')
    .describe('`stream: true` in a queued mode: the stream is stored as it came, or 400.'),
  wait_overflow: oneOf('refuse', 'pending')
    .prefault('refuse')
    .describe('A `wait` beyond `max_held_waits`: 429, or it is queued and answered 202.'),
  cancel_active_on_disconnect: flag
    .prefault(true)
    .describe('Whether a `wait` that its client left is ended while it runs; if it waits, always.'),
  delete_active: oneOf('abort', 'detach')
    .prefault('abort')
    .describe('DELETE of a request that runs: it is ended, or runs on and its result is kept.'),
  max_lane_backlog: limit.describe('Open requests of a queue (429 beyond). Absent: 100000.'),
  max_tenant_backlog: limit.describe('Open requests of a tenant (429 beyond). Absent: 10000.'),
  max_held_waits: limit.describe('Held answers of this process. Absent: 5000.'),
  ack_durability: oneOf('none', 'replica', 'aof')
    .prefault('none')
    .describe('What has to have a request before its 202: nothing more, a replica, or the disk.'),
  append_only_file: oneOf('require', 'warn')
    .prefault('require')
    .describe('Whether a Redis without append-only file is refused.'),
  wakeup_mode: oneOf('auto', 'notify', 'poll')
    .prefault('auto')
    .describe("Upstream's key; all three are wake-ups by publish with a look every 2 s."),
  serve_models: flag
    .prefault(false)
    .describe('`true`: `GET /v1/models` lists the models of `routes` instead of the workers’.'),
  compat_status: flag
    .prefault(false)
    .describe(
      '`true`: statuses as upstream has them: an unknown id is 410 and not 404, a failed lookup or deletion 500 and not 503.',
    ),
};

/** Parameters of the step. Unlike other steps it refuses keys that it does not know, as upstream's does. */
export const asyncBrokerParams = z.looseObject(shape).superRefine((params, context) => {
  const known = Object.keys(shape);
  for (const key of Object.keys(params)) {
    if (known.includes(key) || ignored.includes(key)) continue;
    const nearest = nearestName(key, known);
    const hint = nearest ? ` (did you mean ${nearest}?)` : '';
    context.addIssue({ code: 'custom', path: [key], message: `a known parameter${hint}` });
  }
});

/** What the step is configured with. */
export type AsyncBrokerParams = z.output<typeof asyncBrokerParams>;
