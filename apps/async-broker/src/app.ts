import { createService, Lifecycle, type Service } from '@llm-d/service';
import { type Logger, type Tracing } from '@llm-d/telemetry';
import { AppModule } from './app.module.ts';
import { type Board, mountBoard } from './board.ts';
import { type BrokerAppConfig } from './load-config.ts';
import { openProcessor } from './processor.ts';

/** A processor with its HTTP side. */
export interface App {
  readonly service: Service;
  /** Begins to take tickets, as soon as Redis lets it. */
  start(): void;
  /** Ends the connections, after the service has stopped. */
  close(): Promise<void>;
}

/** Nothing is uploaded here. */
const bodyLimitBytes = 65_536;

/** Builds an async broker that neither listens nor works yet; `tracing` is the caller's to close. */
export async function createApp(
  config: BrokerAppConfig,
  logger: Logger,
  tracing?: Tracing,
): Promise<App> {
  let board: Board | undefined;
  const processor = openProcessor({
    ...{ config, logger, tracing },
    onLane: (lane) => board?.addLane(lane),
  });
  const service = await createService({
    module: AppModule.register(processor.metrics),
    logger,
    bodyLimitBytes,
    readiness: () => ({ problems: processor.problems() }),
  });
  const { path, username, password } = config.board;
  if (password !== undefined && password !== '') {
    const fastify = service.getHttpAdapter().getInstance();
    board = mountBoard(fastify, { path, username, password, redis: config.brokerRedis });
  }
  // A drain waits for what is registered here, after the last HTTP request.
  service.get(Lifecycle).beforeEnd(() => processor.drain());
  return {
    service,
    start: () => {
      processor.start();
    },
    close: async () => {
      await processor.drain();
      await board?.close();
      await processor.close();
    },
  };
}
