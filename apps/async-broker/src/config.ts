import {
  boolean,
  duration,
  httpAddress,
  integer,
  oneOf,
  setting,
  text,
  textList,
} from '@llm-d/config';
import { isLaneName } from '@llm-d/broker';
import { parseListenAddress } from '@llm-d/service';
import { z } from 'zod';

const listenAddress = setting('an address such as :8080 or 127.0.0.1:8080', (value) =>
  typeof value === 'string' ? parseListenAddress(value) : undefined,
);

const redisUrl = setting('a URL that begins with redis:// or rediss://', (value) =>
  typeof value === 'string' && /^rediss?:\/\/[^/]/.test(value) && URL.canParse(value)
    ? value
    : undefined,
);

const laneName = setting('1 to 48 characters of a-z, 0-9 and -', (value) =>
  typeof value === 'string' && isLaneName(value) ? value : undefined,
);

const count = integer('a positive number', 1);
const fraction = setting('a number above 0 and below 1', (value) =>
  typeof value === 'number' && value > 0 && value < 1 ? value : undefined,
);
const upToOne = setting('a number above 0 and up to 1', (value) =>
  typeof value === 'number' && value > 0 && value <= 1 ? value : undefined,
);

const lane = z.strictObject({ name: laneName });

const objective = z.strictObject({ reserved: text, overflow: text });

/** The file of the processor. What records and admission need is the same in the coordinator's file. */
export const brokerFile = z.strictObject({
  listen: listenAddress.prefault(':8080'),
  log_level: integer('a level from 1 (warnings) to 5 (everything)', 1, 5).prefault(2),
  tracing: boolean.prefault(false),
  shutdown_timeout: duration.prefault('25s'),
  drain_timeout: duration.prefault('15s'),
  redis: z
    .strictObject({
      url: redisUrl.optional(),
      cluster: textList.optional(),
      append_only_file: oneOf('require', 'warn').prefault('require'),
    })
    .prefault({}),
  lanes: z
    .array(lane)
    .min(1, 'at least one lane')
    .prefault([{ name: 'request-sortedset' }]),
  tenants: z.record(z.string(), z.strictObject({ concurrency: count.optional() })).prefault({}),
  quota: z
    .strictObject({
      compat_counters: boolean.prefault(false),
      attribute: text.prefault('userid'),
      window: duration.prefault('300s'),
    })
    .prefault({}),
  dispatch: z
    .strictObject({
      address: httpAddress('an address such as http://coordinator:8080').optional(),
      slots: count.prefault(64),
      connect_timeout: duration.prefault('5s'),
      attempt_timeout: duration.prefault('300s'),
      max_answer_bytes: count.prefault(67_108_864),
      retry_connect_errors: boolean.prefault(true),
    })
    .prefault({}),
  objectives: z.record(z.string(), objective).prefault({}),
  gates: z
    .strictObject({
      saturated: oneOf('wait', 'by-tier').prefault('wait'),
      longest_wait: duration.prefault('300s'),
      aimd: z
        .strictObject({
          min: count.prefault(1),
          max: count.prefault(256),
          increase: upToOne.prefault(1),
          decrease: fraction.prefault(0.5),
        })
        .optional(),
    })
    .prefault({}),
  result_ttl: duration.prefault('1h'),
  worker: z
    .strictObject({
      lock: duration.prefault('15s'),
      stalled_interval: duration.prefault('5s'),
      stuck_after: duration.prefault('60s'),
    })
    .prefault({}),
  board: z
    .strictObject({
      path: setting('a path such as /admin/queues', (value) =>
        typeof value === 'string' && /^(?:\/[a-z0-9-]+)+$/.test(value) ? value : undefined,
      ).prefault('/admin/queues'),
      username: text.prefault('admin'),
      password: text.optional(),
    })
    .prefault({}),
});

/** What the processor starts with, as the file says it; durations in milliseconds. */
export type BrokerFile = z.infer<typeof brokerFile>;
