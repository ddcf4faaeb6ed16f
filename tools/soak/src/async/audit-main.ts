import { join } from 'node:path';
import { audit } from './audit.ts';
import { auditRedis } from './audit-redis.ts';
import { readJournal } from './journal.ts';
import { soakForms, type SoakFormName } from './soak-form.ts';

// The auditor is a process of its own: it knows what clients and the target wrote down, and Redis, and nothing else.
const [folder = '', redisUrl = '', form = 'short', baselineMb = '0'] = process.argv.slice(2);
const { timeoutSeconds, maxWakeUpMs, isSettled } = soakForms[form as SoakFormName];
const result = audit({
  told: readJournal(join(folder, 'told.jsonl')),
  ran: readJournal(join(folder, 'ran.jsonl')),
  answered: readJournal(join(folder, 'answered.jsonl')),
  broken: readJournal(join(folder, 'broken.jsonl')),
  ordered: readJournal(join(folder, 'ordered.jsonl')),
  timeoutSeconds,
  maxWakeUpMs,
});
const rest = await auditRedis(redisUrl, { isSettled, baselineMb: Number(baselineMb) });
console.log(
  JSON.stringify({
    ...result,
    redis: { keys: rest.keys, usedMb: rest.usedMb },
    faults: [...result.faults, ...rest.faults],
  }),
);
