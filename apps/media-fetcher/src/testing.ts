import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, type Socket } from 'node:net';
import { type RunningService, startService } from '@llm-d/service';
import { createLogger } from '@llm-d/telemetry';
import { createApp } from './app.ts';
import { type FetcherConfig, loadFetcherConfig } from './config.ts';

/** A PNG of one pixel. */
export const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

/** An origin on loopback. */
export interface Origin {
  readonly base: string;
  /** Paths that were asked for. */
  readonly asked: string[];
  /** Connections that are open. */
  readonly open: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** Starts an origin. */
export async function startOrigin(listener: RequestListener): Promise<Origin> {
  const asked: string[] = [];
  const open = new Set<Socket>();
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    listener(request, response);
  });
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    base: `http://127.0.0.1:${port}`,
    asked,
    open,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A media fetcher that listens, and what it has logged. */
export interface TestFetcher extends RunningService {
  readonly lines: Record<string, unknown>[];
  close(): Promise<void>;
}

/** Starts a media fetcher that may reach loopback, with variables of its own. */
export async function startFetcher(
  environment: Record<string, string> = {},
  change: (config: FetcherConfig) => FetcherConfig = (config) => config,
): Promise<TestFetcher> {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    service: 'test',
    level: 5,
    destination: {
      write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>),
    },
  });
  const { config } = loadFetcherConfig([], { MEDIA_LISTEN: '127.0.0.1:0', ...environment });
  const media = { ...config.media, testOnlyAllowLoopback: true };
  const app = await createApp({ config: change({ ...config, media }), logger });
  const running = await startService(app.service, { ...config, ...config.listen, logger });
  return {
    ...running,
    lines,
    close: async () => {
      await running.stop();
      await app.close();
    },
  };
}
