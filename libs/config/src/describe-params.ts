import { z } from 'zod';
import { defaultOf, isOptional } from './keys.ts';

/** One parameter of a kind of step. */
export interface StepParam {
  readonly name: string;
  /** As written in the file; undefined when it has none, or when the pipeline section decides. */
  readonly default: unknown;
  readonly isRequired: boolean;
  /** Whether a key of the pipeline section stands in for it. */
  readonly isInherited: boolean;
  /** What it does, in Markdown; empty when its schema has no description. */
  readonly meaning: string;
}

/** Keys of the pipeline section that steps take over (coordinator.md 7.6). */
const inheritedNames = new Set(['use_openai_format', 'kv_connector', 'ec_connector']);

/**
 * The parameters that a step's schema knows, in its order, without those whose presence it refuses. None for a schema
 * that is no object.
 */
export function describeParams(schema: z.ZodType): StepParam[] {
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries<z.ZodType>(schema.shape)
    .filter(([, param]) => !isRefused(param))
    .map(([name, param]) => {
      const isInherited = inheritedNames.has(name);
      return {
        name,
        default: isInherited ? undefined : defaultOf(param),
        isRequired: !isInherited && !isOptional(param),
        isInherited,
        meaning: param.description ?? '',
      };
    });
}

function isRefused(param: z.ZodType): boolean {
  return param instanceof z.ZodOptional && param.def.innerType instanceof z.ZodUndefined;
}
