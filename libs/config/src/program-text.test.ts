import { describe, expect, it } from '@jest/globals';
import { programText } from './program-text.ts';

const program = {
  name: 'a-program',
  packageFile: new URL('../package.json', import.meta.url),
  help: 'Usage:\n',
};

describe('programText', () => {
  it.each([['--help'], ['-h'], ['-help'], ['--version', '--help'], ['validate', '--help']])(
    'takes %s for help',
    (...argv) => {
      expect(programText(argv, program)).toBe('Usage:\n');
    },
  );

  it.each([['--version'], ['-version'], ['--listen', ':1', '--version']])(
    'takes %s for version',
    (...argv) => {
      expect(programText(argv, program)).toBe(`a-program 0.0.0, Node ${process.version}\n`);
    },
  );

  it.each([[], ['--listen', ':1'], ['version']])('is nothing without them: %s', (...argv) => {
    expect(programText(argv, program)).toBeUndefined();
  });
});
