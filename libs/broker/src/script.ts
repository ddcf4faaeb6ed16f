import { readFileSync } from 'node:fs';
import { type Cluster, type Redis } from 'ioredis';

/** A connection to one server or to a cluster. */
export type RedisLike = Redis | Cluster;

/** The scripts of `scripts/*.lua` that work on one request, and those of one key. */
const numbersOfKeys = {
  admit: 4,
  begin: 4,
  finish: 4,
  park: 4,
  cancel: 4,
  touch: 4,
  quota: 1,
  counter: 1,
  lead: 1,
} as const;

/** Name of a script: the file without its ending. */
export type ScriptName = keyof typeof numbersOfKeys;

/** A part of a script's answer. */
export type ScriptReply = string | number | null;

const folder = new URL('../scripts/', import.meta.url);
const read = (file: string): string => readFileSync(new URL(file, folder), 'utf8');

/** Gives a connection the scripts, sent by their hash. */
export function defineScripts(client: RedisLike): void {
  for (const [name, numberOfKeys] of Object.entries(numbersOfKeys)) {
    const preamble = numberOfKeys === 4 ? read('common.lua') : '';
    client.defineCommand(`ab:${name}`, { numberOfKeys, lua: preamble + read(`${name}.lua`) });
  }
}

/** Runs a script on a connection that `defineScripts` has seen. */
export function runScript(
  client: RedisLike,
  name: ScriptName,
  keys: readonly string[],
  args: readonly (string | number | Uint8Array)[],
): Promise<ScriptReply | ScriptReply[]> {
  // `defineCommand` adds methods that the type does not know; all of them take keys and arguments.
  const commands = client as unknown as Record<
    `ab:${ScriptName}`,
    (...words: unknown[]) => Promise<ScriptReply | ScriptReply[]>
  >;
  return commands[`ab:${name}`](...keys, ...args);
}
