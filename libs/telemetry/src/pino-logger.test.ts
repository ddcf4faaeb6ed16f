import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { spawnSync } from 'node:child_process';
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

afterEach(() => {
  jest.useRealTimers();
});

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

  it.each([
    '2026-12-01T11:59:59.999Z',
    '2026-12-01T12:00:00.000Z',
    '2026-12-01T12:00:00.007Z',
    '2026-12-01T11:59:59.999Z',
  ])('names the service and the time on every line: %s', (time) => {
    jest.useFakeTimers({ now: new Date(time) });
    expect(linesAt(2)[0]).toMatchObject({ service: 'test', msg: 'e', time });
  });

  it('has every line on standard output when the process exits, whatever was gathered', () => {
    const module = JSON.stringify(new URL('./pino-logger.ts', import.meta.url).href);
    const program = `
      const { createLogger } = await import(${module});
      const logger = createLogger({ service: 'test', level: 2 });
      for (let i = 0; i < 3000; i++) {
        logger.info({ i }, 'café ☕');
        if (i === 1500) await new Promise((resume) => setTimeout(resume, 1));
      }
      process.exit(0);
    `;
    const { stdout } = spawnSync(
      process.execPath,
      ['--conditions=@llm-d/source', '--input-type=module', '--eval', program],
      { encoding: 'utf8' },
    );
    const lines = stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject(
      Array.from({ length: 3000 }, (_, i) => ({ i, msg: 'café ☕' })),
    );
  });
});
