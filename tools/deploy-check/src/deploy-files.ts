import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

/** The repository's folder. */
export const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Absolute path of a file that is named from the repository's folder. */
export const pathOf = (file: string): string => join(root, file);

/** Text of a file that is named from the repository's folder. */
export const textOf = (file: string): string => readFileSync(pathOf(file), 'utf8');

/** A YAML file of the repository, with merge keys resolved. The caller knows its shape. */
export const yamlOf = (file: string): unknown => parse(textOf(file), { merge: true });
