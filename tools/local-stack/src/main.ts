import { ChildFailedError } from './child-group.ts';
import { demoPhoto, toDataUri } from './demo-photo.ts';
import { runDemo } from './demo.ts';
import { runQueueDemo } from './demo-queue.ts';
import { type Options, readOptions, usage } from './options.ts';
import { findRedis, type FoundRedis } from './find-redis.ts';
import { startPhotoOrigin } from './photo-origin.ts';
import { type Stack, startStack } from './stack.ts';
import { waterfall } from './waterfall.ts';

/** About the pace of a large model, so that one can watch the answer arrive. */
const tokenIntervalMs = 20;

/** Somebody asked the stack to end. */
class StoppedError extends Error {
  override readonly name = 'StoppedError';
}

/** Rejects at the first SIGINT or SIGTERM; a terminal sends it to npm as well, so it may come twice. */
function stopped(): Promise<never> {
  return new Promise((_, reject) => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) {
      process.on(name, () => reject(new StoppedError(`ended by ${name}`)));
    }
  });
}

async function main(options: Options): Promise<number> {
  const say = options.isJson ? console.error : console.log;
  const write = (text: string): boolean =>
    (options.isJson ? process.stderr : process.stdout).write(text);
  const stop = stopped();
  stop.catch(() => {});
  const start = performance.now();
  const workerEnv = { SIM_ITL_MS: String(tokenIntervalMs) };
  // A server of its own first: one that somebody runs may be set up for other things.
  const redis = findRedis({ PATH: process.env['PATH'] }) ?? findRedis(process.env);
  const hasOwnUrl = redis !== undefined && 'url' in redis;
  say(`The media fetcher keeps its cache in ${describeRedis(redis)}.`);
  const photo = options.image ?? demoPhoto;
  const origin = options.isByUrl ? await startPhotoOrigin(photo) : undefined;
  const imageUrl = origin?.url ?? (await toDataUri(photo));
  const config = origin ? { allowed_private_cidrs: [`${origin.address}/32`] } : {};
  const { directory } = options;
  const parts = { mediaFetcher: { redis, config }, queue: redis && { redis } };
  const stack = await startStack({ directory, workerEnv, ...parts }, stop).catch(
    (error: unknown) => {
      origin?.close();
      throw error;
    },
  );
  const end = Promise.race([stop, stack.children.failed]);
  try {
    say(
      `The stack runs (${((performance.now() - start) / 1000).toFixed(1)} s to start). Asking it:`,
    );
    const shown = origin?.url ?? options.image ?? 'tools/local-stack/photo/harbour.jpg';
    say(`\n  ${options.prompt}   [photo: ${shown}]\n`);
    const question = { prompt: options.prompt, imageUrl };
    const { result, spans } = await Promise.race([runDemo(stack, question, write), end]);
    say(`\n\nHow the coordinator spent ${result.ms} ms:\n\n${waterfall(spans)}\n`);
    const queued = await Promise.race([askQueue(stack, say), end]);
    // A server that somebody runs for other things may refuse, and says why in the log.
    const isExpected = queued !== undefined && (queued.submitted === 202 || !hasOwnUrl);
    const ok = result.ok && (!isExpected || queued.fetched === 200);
    if (options.isJson) console.log(JSON.stringify({ ...result, ok, queued }));
    if (options.isOnce) return ok ? 0 : 1;
    say(addresses(stack, options));
    return await end;
  } finally {
    origin?.close();
    await stack.stop();
  }
}

function describeRedis(redis: FoundRedis | undefined): string {
  if (redis === undefined) {
    return 'its own memory (with redis-server or valkey-server installed, or REDIS_URL, also in Redis)';
  }
  return 'url' in redis
    ? 'its memory and the Redis of REDIS_URL'
    : `its memory and ${redis.program}`;
}

/** Queues a request too, where there is a Redis for it. */
async function askQueue(stack: Stack, say: (text: string) => void) {
  if (stack.asyncBrokerUrl === undefined) {
    say('Requests cannot be queued: install redis-server (or valkey-server), or set REDIS_URL.\n');
    return undefined;
  }
  const queued = await runQueueDemo(stack.publicUrl);
  const { id, submitted, asked, fetched, ms, text } = queued;
  if (submitted !== 202) {
    say(`The queue refused a request (HTTP ${submitted}); the coordinator's log has the reason.\n`);
    return queued;
  }
  say(`A queued request: submitted as ${id} (HTTP ${submitted}), waited for ${ms} ms
(asked ${asked} times), and fetched (HTTP ${fetched}):

  ${text}
`);
  return queued;
}

function addresses(stack: Stack, { directory }: Options): string {
  const post = `curl -sN ${stack.publicUrl}/v1/chat/completions -H 'content-type: application/json' -d`;
  const pods = stack.pods.map(({ name, url }) => `  ${name.padEnd(14)} ${url}`).join('\n');
  return `The stack stays up until Ctrl-C.

  gateway        ${stack.publicUrl}   (clients; legs go to ${stack.internalUrl})
  coordinator    ${stack.coordinatorUrl}   (metrics: ${stack.coordinatorMetricsUrl})
  render-shim    ${stack.renderUrl}
  media-fetcher  ${stack.mediaFetcherUrl}   (metrics: ${stack.mediaFetcherUrl}/metrics)
${pods}
${stack.asyncBrokerUrl === undefined ? '' : `  async-broker   ${stack.asyncBrokerUrl}\n`}  logs           ${directory}/logs

Try it:

${post} '{"model":"sim/model","stream":true,"messages":[{"role":"user","content":"Hello there"}]}'

curl -s ${stack.publicUrl}/v1/completions -H 'content-type: application/json' -d '{"model":"sim/model","prompt":"Once upon a time","max_tokens":16}'

curl -s ${stack.renderUrl}/v1/chat/completions/render -H 'content-type: application/json' -d '{"model":"sim/model","messages":[{"role":"user","content":"Which tokens are these?"}]}'
`;
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options === 'help') console.log(usage);
  else process.exitCode = await main(options);
} catch (error) {
  if (error instanceof StoppedError) process.exit(0);
  const isExpected = error instanceof ChildFailedError || error instanceof TypeError;
  console.error(isExpected ? error.message : error);
  process.exitCode = 1;
}
