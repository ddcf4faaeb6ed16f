import { z } from 'zod';
import { sections } from './schema.ts';

/** One key that holds a value, as the file, the environment and the documentation name it. */
export interface ConfigKey {
  /** `server.read_timeout`. */
  readonly path: string;
  /** `COORDINATOR_SERVER_READ_TIMEOUT`; absent for what no text can express. */
  readonly environmentName?: string;
  /** As written in the file; undefined when required or decided by another key. */
  readonly default: unknown;
}

/** Every key, in the order of the file. */
export const configKeys: readonly ConfigKey[] = Object.entries(sections).flatMap(
  ([section, shape]) =>
    Object.entries<z.ZodType>(shape)
      .map(([name, schema]) => ({ path: section === '' ? name : `${section}.${name}`, schema }))
      .filter(({ path }) => !(path in sections))
      .map(({ path, schema }) => ({
        path,
        ...(path === 'pipeline.steps' ? {} : { environmentName: environmentName(path) }),
        default: defaultOf(schema),
      })),
);

function environmentName(path: string): string {
  return `COORDINATOR_${path.replaceAll('.', '_').toUpperCase()}`;
}

function defaultOf(schema: z.ZodType): unknown {
  return schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault
    ? schema.def.defaultValue
    : undefined;
}
