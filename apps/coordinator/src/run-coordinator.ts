import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ConfigError,
  type CoordinatorConfig,
  defaultFile,
  describeProblem,
  type Flags,
  loadConfig,
} from '@llm-d/config';
import { mediaSettings } from '@llm-d/media';
import {
  isLoopback,
  Lifecycle,
  type ListenAddress,
  type MetricsListener,
  parseListenAddress,
  runService,
  ServerTls,
  startMetricsListener,
} from '@llm-d/service';
import { loadPlugins, parseBootstrapPort } from '@llm-d/steps';
import {
  CoordinatorMetrics,
  createLogger,
  type Logger,
  type LoggerOptions,
  startTracing,
} from '@llm-d/telemetry';
import { createApp } from './app.ts';
import { type Command, parseCommand } from './command-line.ts';
import { warnOfAbsent } from './dependencies.ts';
import { startDebugServer } from './debug-server.ts';
import { explainConfiguration } from './explain-configuration.ts';

/** Connections to upstreams close in no time unless requests are left behind by a second signal. */
const closeLimitMs = 1_000;
const maxFlushMs = 5_000;
/** What is started together is up by then. */
const othersStartMs = 5_000;

/** The outside of a coordinator process. */
export interface ProcessOptions {
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Takes what a command prints. */
  readonly output: { write(text: string): unknown };
  /** Hears why the process does not start, one line per problem. */
  readonly errors: { write(text: string): unknown };
  /** Where log lines go; standard output when absent. */
  readonly logDestination?: LoggerOptions['destination'];
}

/**
 * Does what the command line asks: as a rule, starts a coordinator and runs it until it is told to stop. Resolves to the
 * exit code: 1 when the configuration has a problem, when it could not drain or was stopped twice.
 */
export async function runCoordinator(options: ProcessOptions): Promise<number> {
  try {
    return await perform(parseCommand(options.argv), options);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) options.errors.write(`coordinator: ${problem}\n`);
    return 1;
  }
}

async function perform(command: Command, options: ProcessOptions): Promise<number> {
  const { output, errors } = options;
  switch (command.name) {
    case 'run':
      return run(command.flags, options);
    case 'validate': {
      const { file } = command.flags;
      return run(command.flags, { ...options, logDestination: { write() {} } }, (warnings) => {
        for (const warning of warnings) errors.write(`warning: ${warning}\n`);
        output.write(`${file}: valid\n`);
      });
    }
    case 'explain': {
      const loaded = load(command.flags, options.environment);
      const explained = await explainConfiguration(loaded, command.flags.file);
      for (const warning of loaded.warnings) errors.write(`warning: ${warning}\n`);
      output.write(explained);
      return 0;
    }
    case 'print':
      output.write(command.text);
      return 0;
  }
}

function load(flags: Flags, environment: ProcessOptions['environment']) {
  if (flags.file === defaultFile && !existsSync(defaultFile)) {
    throw new ConfigError([`${defaultFile}: does not exist, --config FILE names another`]);
  }
  return loadConfig({
    file: flags.file,
    environment,
    flags: flags.overrides,
    strict: flags.strictConfig,
  });
}

/** @param onValid ends the start before anything listens, with what the author of the configuration should hear. */
async function run(
  flags: Flags,
  { environment, logDestination }: ProcessOptions,
  onValid?: (warnings: readonly string[]) => void,
): Promise<number> {
  const { config, warnings } = load(flags, environment);
  const { server, pipeline } = config;
  const address = readAddress('server.listen_addr', server.listenAddress);
  const debugAddress = readDebugAddress(server.debugAddress);

  const logger = createLogger({
    service: 'coordinator',
    level: config.logLevel,
    ...(logDestination ? { destination: logDestination } : {}),
  });
  const metricsTls = await loadMetricsTls(server, logger);
  const media = mediaSettings(config.media, environment);
  const bootstrap = parseBootstrapPort(environment['SGLANG_BOOTSTRAP_PORT']);
  const hasMetricsListener = server.metricsPort > 0;
  const metrics = new CoordinatorMetrics({ hasProcessMetrics: hasMetricsListener });
  const definitions = await loadPlugins(pipeline.plugins, flags.file);
  const tracing = config.tracing && !onValid ? await startTracing(environment, logger) : undefined;
  const coordinator = await createApp({
    config,
    logger,
    media,
    metrics,
    tracing,
    bootstrapPort: bootstrap.port,
    definitions,
  });
  if (flags.strictConfig && coordinator.warnings.length > 0) {
    throw new ConfigError(coordinator.warnings);
  }
  if (onValid) {
    await coordinator.close();
    onValid([...warnings, ...coordinator.warnings]);
    return 0;
  }
  if (bootstrap.isRejected) {
    logger.error(`SGLANG_BOOTSTRAP_PORT: expected a port, ${bootstrap.port} is used`);
  }
  for (const warning of [...warnings, ...coordinator.warnings]) logger.warn(warning);
  if (server.tls.certificatePath !== '' && !server.isSecure) {
    logger.warn('server.cert_path: has no effect without server.secure_serving');
  }
  if (server.isSecure && server.tls.certificatePath === '') {
    logger.warn('server.cert_path: not set, clients get a self-signed certificate');
  }
  for (const flag of flags.ignored) logger.warn(`${flag}: has no effect`);
  logger.info(
    {
      node: process.version,
      log_level: config.logLevel,
      steps: pipeline.steps.map((step) => step.type),
      kv_connector: pipeline.kvConnector,
      ec_connector: pipeline.ecConnector,
      // Whether there is one; its address may hold credentials.
      has_media_proxy: media.proxy !== undefined,
      no_proxy: media.proxy?.noProxy,
      tls: server.isSecure,
      is_traced: tracing !== undefined,
      shutdown_timeout_ms: server.shutdownTimeoutMs,
    },
    'starting',
  );

  let metricsListener: MetricsListener | undefined;
  if (hasMetricsListener) {
    try {
      metricsListener = await startMetricsListener({
        port: server.metricsPort,
        tls: metricsTls,
        text: (accept) => metrics.text(accept),
      });
    } catch (error) {
      logger.fatal(
        `cannot listen on server.metrics_port ${server.metricsPort}: ${reasonOf(error)}`,
      );
      return 1;
    }
    logger.info({ port: metricsListener.port, tls: metricsTls !== undefined }, 'metrics listener');
  }
  const debugServer =
    debugAddress && coordinator.recent
      ? await startDebugServer(
          { recent: coordinator.recent, handoffs: coordinator.handoffs },
          debugAddress,
        ).catch(reportDebugFailure(logger))
      : undefined;
  if (debugAddress && !debugServer) return 1;
  if (debugServer) logger.info(debugServer.address(), 'debug listener');
  setTimeout(() => void warnOfAbsent(config, logger), othersStartMs).unref();
  const lifecycle = coordinator.service.get(Lifecycle);
  const exitCode = await runService(coordinator.service, {
    ...address,
    logger,
    shutdownTimeoutMs: server.shutdownTimeoutMs,
    drainDelayMs: server.drainDelayMs,
  });
  debugServer?.close();
  await metricsListener?.stop();
  await Promise.race([coordinator.close(), sleep(closeLimitMs, undefined, { ref: false })]);
  const drainMs = performance.now() - (lifecycle.drainingSince ?? performance.now());
  await tracing?.close(flushMs(server.drainDelayMs + server.shutdownTimeoutMs - drainMs));
  return exitCode;
}

/** Bad files end the start: a listener that falls back to plain HTTP would be a surprise. */
async function loadMetricsTls(
  { metricsPort, metricsCertDirectory }: CoordinatorConfig['server'],
  logger: Logger,
): Promise<ServerTls | undefined> {
  if (metricsPort <= 0 || metricsCertDirectory === '') return undefined;
  try {
    return await ServerTls.load({ certificatePath: metricsCertDirectory }, logger);
  } catch (cause) {
    const expected = 'a directory with tls.crt and tls.key that belong together';
    const problem = describeProblem('server.metrics_cert_dir', expected, metricsCertDirectory);
    throw new ConfigError([`${problem}: ${reasonOf(cause)}`], { cause });
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === 'EADDRINUSE' ? 'the port is in use' : message;
}

/** The last spans go out in what the drain has left of its limit. A collector that is gone holds the exit up no longer. */
function flushMs(leftMs: number): number {
  return Math.min(Math.max(leftMs, closeLimitMs), maxFlushMs);
}

function reportDebugFailure(logger: Logger) {
  return (error: Error): undefined => {
    logger.fatal(`cannot listen on server.debug_addr: ${error.message}`);
  };
}

function readDebugAddress(text: string): ListenAddress | undefined {
  if (text === '') return undefined;
  const address = readAddress('server.debug_addr', text);
  if (isLoopback(address)) return address;
  throw new ConfigError([describeProblem('server.debug_addr', 'a loopback address', text)]);
}

function readAddress(key: string, text: string): ListenAddress {
  const address = parseListenAddress(text);
  if (address) return address;
  throw new ConfigError([describeProblem(key, 'an address such as :8080 or 127.0.0.1:8080', text)]);
}
