import { freePorts } from '@llm-d/local-stack';
import { ask } from './ask.ts';
import { addressOf, runCoordinator } from './coordinator-process.ts';
import { FastWorker } from './fast-worker.ts';
import { memoryOf } from './memory-of.ts';

const megabyte = 1024 * 1024;
/** A PNG of one pixel. */
const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** How many chats with an inlined image are sent at once, and how large each body is. */
export interface InlineImagesOptions {
  readonly requests: number;
  readonly bodyMegabytes: number;
}

/** What a crowd of inlined images costs. */
export interface InlineImagesFigures {
  readonly statuses: readonly number[];
  /** Growth of the coordinator's peak memory, for all requests. */
  readonly grownBytes: number;
  /** How late the coordinator's event loop was. */
  readonly loopP99Ms: number;
}

/** C33: clients that send large images as `data:` URIs, all at once. */
export async function inlineImages(options: InlineImagesOptions): Promise<InlineImagesFigures> {
  const { requests, bodyMegabytes } = options;
  const worker = new FastWorker(0);
  const [metricsPort = 0] = await freePorts(1);
  const media = { max_download_size: bodyMegabytes, max_total_download_size: bodyMegabytes };
  const coordinator = runCoordinator({
    server: { listen_addr: '127.0.0.1:0', metrics_port: metricsPort },
    gateway: { address: await worker.start() },
    pipeline: {
      kv_connector: 'kv-nixl',
      steps: [{ type: 'replace-media-urls', params: media }, { type: 'decode' }],
    },
  });
  try {
    const url = await addressOf(coordinator);
    const question = { path: '/v1/chat/completions', body: chatOf(bodyMegabytes * megabyte) };
    await ask(url, { ...question, body: chatOf(1_000) });
    const idleBytes = memoryOf(coordinator.pid, 'VmRSS');
    const loopP99 = async (): Promise<number> => {
      const { body } = await ask(`http://127.0.0.1:${metricsPort}`, {
        path: '/metrics',
        method: 'GET',
      });
      return Number(/^nodejs_eventloop_lag_p99_seconds (\S+)$/m.exec(body.toString())?.[1]);
    };
    // Each look begins a new time of measuring.
    await loopP99();
    const answers = await Promise.all(Array.from({ length: requests }, () => ask(url, question)));
    return {
      statuses: answers.map(({ status }) => status),
      grownBytes: memoryOf(coordinator.pid, 'VmHWM') - idleBytes,
      loopP99Ms: (await loopP99()) * 1_000,
    };
  } finally {
    worker.close();
    coordinator.signal('SIGKILL');
    await coordinator.exited;
  }
}

/** A chat with one image, of about so many bytes. */
function chatOf(bytes: number): Buffer {
  const start =
    '{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":';
  const image = Buffer.alloc(Math.floor((bytes - 300) / 4) * 4, 'A');
  // The last group of the picture has padding.
  image.write(png.slice(0, -4));
  return Buffer.concat([
    Buffer.from(`${start}{"url":"data:image/png;base64,`),
    image,
    Buffer.from('"}}]}]}'),
  ]);
}
