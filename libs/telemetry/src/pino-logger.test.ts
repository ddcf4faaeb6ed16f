import { describe, expect, it } from '@jest/globals';
import { createLogger, type LogLevel } from './pino-logger.ts';

/** Everything a logger of this level writes, line by line. */
function linesAt(level: LogLevel): Record<string, unknown>[] {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    service: 'test',
    level,
    destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  });
  logger.error('e');
  logger.warn('w');
  logger.info('i');
  logger.verbose('v');
  logger.debug('d');
  logger.trace('t');
  return lines;
}

describe('createLogger', () => {
  it.each([
    { level: 1 as const, written: ['error', 'warn'] },
    { level: 2 as const, written: ['error', 'warn', 'info'] },
    { level: 3 as const, written: ['error', 'warn', 'info', 'verbose'] },
    { level: 4 as const, written: ['error', 'warn', 'info', 'verbose', 'debug'] },
    { level: 5 as const, written: ['error', 'warn', 'info', 'verbose', 'debug', 'trace'] },
  ])('log_level $level writes $written', ({ level, written }) => {
    expect(linesAt(level).map((line) => line['level'])).toEqual(written);
  });

  it('names the service and the time on every line', () => {
    const [line] = linesAt(2);
    expect(line).toMatchObject({ service: 'test', msg: 'e' });
    expect(new Date(String(line?.['time'])).getTime()).toBeGreaterThan(0);
  });
});
