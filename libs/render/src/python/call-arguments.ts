import { badRequest } from '../errors.ts';
import { typeName, type CallArguments, type Value } from './value.ts';

/** Binds the arguments of a call to parameter names; a missing one is absent, an unknown one is an error. */
export function bindArguments(
  name: string,
  args: CallArguments,
  parameters: readonly string[],
): Map<string, Value> {
  if (args.positional.length > parameters.length) {
    throw badRequest(`${name}() takes at most ${parameters.length} argument(s)`);
  }
  const bound = new Map<string, Value>();
  args.positional.forEach((value, at) => bound.set(parameters[at] ?? '', value));
  for (const [key, value] of args.named) {
    if (!parameters.includes(key)) {
      throw badRequest(`${name}() got an unexpected keyword argument '${key}'`);
    }
    if (bound.has(key)) throw badRequest(`${name}() got multiple values for argument '${key}'`);
    bound.set(key, value);
  }
  return bound;
}

/** The value as text, or an error that names the call. */
export function textArgument(name: string, value: Value): string {
  if (typeof value !== 'string') {
    throw badRequest(`${name}() argument must be str, not ${typeName(value)}`);
  }
  return value;
}

/** The value as a safe integer, `fallback` when it is absent or None. */
export function integerArgument(name: string, value: Value, fallback: number): number {
  if (value === undefined || value === null) return fallback;
  if (typeof value !== 'bigint' && typeof value !== 'boolean') {
    throw badRequest(`${name}() argument must be int, not ${typeName(value)}`);
  }
  return Number(value);
}
