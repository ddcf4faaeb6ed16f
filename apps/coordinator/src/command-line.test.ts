import { describe, expect, it } from '@jest/globals';
import { flagNames } from '@llm-d/config';
import { helpText, parseCommand } from './command-line.ts';

const standard = 'config/coordinator/coordinator.yaml';

describe('parseCommand', () => {
  it.each([
    { argv: [], name: 'run', file: standard },
    { argv: ['--config', 'a.yaml'], name: 'run', file: 'a.yaml' },
    { argv: ['validate'], name: 'validate', file: standard },
    { argv: ['validate', 'a.yaml'], name: 'validate', file: 'a.yaml' },
    { argv: ['validate', '--config=a.yaml'], name: 'validate', file: 'a.yaml' },
    { argv: ['validate', 'a.yaml', '--config=b.yaml'], name: 'validate', file: 'a.yaml' },
    { argv: ['explain', 'a.yaml', '-v', '4'], name: 'explain', file: 'a.yaml' },
  ])('takes $argv for $name of $file', ({ argv, name, file }) => {
    expect(parseCommand(argv)).toMatchObject({ name, flags: { file } });
  });

  it('takes the flags of a start with every command', () => {
    expect(parseCommand(['validate', 'a.yaml', '--strict-config', '-v=4'])).toMatchObject({
      flags: { strictConfig: true, overrides: { log_level: '4' } },
    });
  });

  it.each([['--help'], ['validate', '--help']])('takes %s for help', (...argv) => {
    expect(parseCommand(argv)).toEqual({ name: 'print', text: helpText });
  });

  it.each([
    { argv: ['validat', 'a.yaml'], problem: 'validat: unknown command, did you mean validate?' },
    { argv: ['launch'], problem: 'launch: unknown command' },
    {
      argv: ['validate', 'a', 'b'],
      problem: 'command line: expected flags such as --config, got "b"',
    },
    { argv: ['--verson'], problem: '--verson: unknown flag, did you mean --version?' },
  ])('refuses $argv', ({ argv, problem }) => {
    expect(() => parseCommand(argv)).toThrow(problem);
  });
});

describe('--help', () => {
  it.each(['validate', 'explain', ...flagNames])('names %s', (name) => {
    expect(helpText).toMatch(new RegExp(`[ -]${name}\\b`));
  });
});
