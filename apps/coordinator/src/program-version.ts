import { readFileSync } from 'node:fs';
import { z } from 'zod';

const packageFile = z.looseObject({ version: z.string() });

/** The version of this package. */
export function programVersion(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return packageFile.parse(JSON.parse(text)).version;
}
