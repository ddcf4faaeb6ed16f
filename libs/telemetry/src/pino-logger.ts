import { type DestinationStream, destination, pino } from 'pino';

/**
 * What the edges log with: pino plus `verbose`, the level between info and debug that the
 * configuration counts as 3.
 */
export type Logger = pino.Logger<'verbose'>;

/** `log_level` of the configuration: 1 warning, 2 info, 3 verbose, 4 debug, 5 trace. */
export type LogLevel = 1 | 2 | 3 | 4 | 5;

/** How a process logs. */
export interface LoggerOptions {
  /** Name of the service, on every line. */
  readonly service: string;
  readonly level: LogLevel;
  /** Receives the JSON lines; standard output when absent. */
  readonly destination?: DestinationStream;
}

/** Lines are written together: a system call for each of them would be a tenth of the CPU of a short request. */
const [writeBytes, flushMs] = [65_536, 100];

const pinoLevels = { 1: 'warn', 2: 'info', 3: 'verbose', 4: 'debug', 5: 'trace' } as const;

/**
 * JSON lines with a readable level and an ISO time. Lines to standard output are written behind
 * the caller's back, at the latest after a tenth of a second, and flushed when the process exits.
 */
export function createLogger(options: LoggerOptions): Logger {
  return pino(
    {
      level: pinoLevels[options.level],
      customLevels: { verbose: 25 },
      base: { service: options.service },
      timestamp: isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    options.destination ?? standardOutput(),
  );
}

/** The last second, as lines begin with it: a date costs more to write than all else of a time. */
const second = { number: NaN, text: '' };

/** The time of a line as pino wants it. */
function isoTime(): string {
  const now = Date.now();
  const number = Math.floor(now / 1_000);
  if (number !== second.number) {
    second.number = number;
    second.text = `,"time":"${new Date(now).toISOString().slice(0, -4)}`;
  }
  return `${second.text}${String(now % 1_000).padStart(3, '0')}Z"`;
}

/** Gathers lines as bytes: text would be joined, and its bytes counted anew, with every line. */
function standardOutput(): DestinationStream {
  const output = destination({
    ...{ fd: 1, sync: false, periodicFlush: flushMs, contentMode: 'buffer' },
    ...{ minLength: writeBytes, maxWrite: 2 * writeBytes },
  });
  // Its types do not know that in this mode it takes bytes.
  const write = output.write.bind(output) as (line: unknown) => boolean;
  return Object.assign(output, { write: (line: string) => write(Buffer.from(line)) });
}
