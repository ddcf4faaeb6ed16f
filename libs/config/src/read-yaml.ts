import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { ConfigError } from './config-error.ts';

/** Reads a YAML file, as `readYaml` reads its text. */
export function readYamlFile(file: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    // Such as `ENOENT: no such file or directory, open 'a.yaml'`.
    const [reason = ''] = messageOf(cause).split(', ', 1);
    throw new ConfigError([`${file}: cannot be read: ${reason}`], { cause });
  }
  return readYaml(text, file);
}

/**
 * The mapping that a text holds; an empty text holds an empty one.
 *
 * @throws ConfigError that says what is wrong where and quotes nothing: the text may hold secrets.
 */
export function readYaml(text: string, file: string): Record<string, unknown> {
  let content: unknown;
  try {
    content = parse(text, { merge: true }) ?? {};
  } catch (cause) {
    // What follows the first line is a quotation.
    const [reason = ''] = messageOf(cause).split(/:?\n/, 1);
    throw new ConfigError([`${file}: not valid YAML: ${reason}`], { cause });
  }
  if (typeof content === 'object' && content !== null && !Array.isArray(content)) {
    return { ...content };
  }
  const kind = Array.isArray(content) ? 'list' : typeof content;
  throw new ConfigError([`${file}: expected a mapping of keys, got a ${kind}`]);
}

/** Reading and parsing throw nothing but Errors. */
const messageOf = (cause: unknown): string => (cause as Error).message;
