import { readFileSync } from 'node:fs';
import { z } from 'zod';

const packageJson = z.looseObject({ version: z.string() });

/** A program as it speaks of itself. */
export interface Program {
  readonly name: string;
  /** Its `package.json`. */
  readonly packageFile: URL;
  /** How it is called. */
  readonly help: string;
}

/** What is printed for a command line with `--help` or `--version`; undefined without them. */
export function programText(argv: readonly string[], program: Program): string | undefined {
  if (argv.some((word) => /^(?:-h|--?help)$/.test(word))) return program.help;
  if (!argv.some((word) => /^--?version$/.test(word))) return undefined;
  const { version } = packageJson.parse(JSON.parse(readFileSync(program.packageFile, 'utf8')));
  return `${program.name} ${version}, Node ${process.version}\n`;
}
