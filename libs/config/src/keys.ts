import { z } from 'zod';
import { sections } from './schema.ts';

/** One key that holds a value, as the file, the environment and the documentation name it. */
export interface ConfigKey {
  /** `server.read_timeout`. */
  readonly path: string;
  /** `server`; empty for keys at the top level. */
  readonly section: string;
  /** `COORDINATOR_SERVER_READ_TIMEOUT`; for a list also the start of its elements' names. */
  readonly environmentName: string;
  /** As written in the file; undefined when required or decided by another key. */
  readonly default: unknown;
  /** Whether a configuration without it cannot start. */
  readonly isRequired: boolean;
  /** What it does, in Markdown. */
  readonly meaning: string;
}

/** Every key, in the order of the file. */
export const configKeys: readonly ConfigKey[] = Object.entries(sections).flatMap(
  ([section, shape]) =>
    Object.entries<z.ZodType>(shape)
      .map(([name, schema]) => ({ path: section === '' ? name : `${section}.${name}`, schema }))
      .filter(({ path }) => !(path in sections))
      .map(({ path, schema }) => ({
        path,
        section,
        environmentName: environmentName(path),
        default: defaultOf(schema),
        isRequired: !isOptional(schema),
        meaning: schema.description ?? '',
      })),
);

function environmentName(path: string): string {
  return `COORDINATOR_${path.replaceAll('.', '_').toUpperCase()}`;
}

/** The default of a setting as written in the file; undefined when it has none. */
export function defaultOf(schema: z.ZodType): unknown {
  return schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault
    ? schema.def.defaultValue
    : undefined;
}

/** Whether a setting may be left out. */
export function isOptional(schema: z.ZodType): boolean {
  return [z.ZodPrefault, z.ZodDefault, z.ZodOptional].some((kind) => schema instanceof kind);
}
