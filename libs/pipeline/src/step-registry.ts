import { type z } from 'zod';
import { type Step, type StepDefinition, type StepDependencies } from './step.ts';

/** A step as the configuration names it. */
export interface StepConfig {
  readonly type: string;
  readonly params?: Readonly<Record<string, unknown>> | undefined;
}

/** A step ready to run. */
export interface NamedStep {
  readonly type: string;
  readonly run: Step;
  readonly isTerminal: boolean;
  /** Whether it runs once for each request, before anything else; only the first steps may. */
  readonly isEntrance?: boolean;
}

/** The kinds of steps that a configuration may name. */
export class StepRegistry {
  readonly #definitions = new Map<string, StepDefinition>();

  /** @throws Error when two definitions have the same type. */
  constructor(definitions: readonly StepDefinition[]) {
    for (const definition of definitions) this.register(definition);
  }

  /** @throws Error when the type is taken. */
  register(definition: StepDefinition): void {
    if (this.#definitions.has(definition.type)) {
      throw new Error(`two step definitions have the type "${definition.type}"`);
    }
    this.#definitions.set(definition.type, definition);
  }

  get types(): string[] {
    return [...this.#definitions.keys()];
  }

  /**
   * Makes a step. Parameters that the step does not know are given to `onUnknown` and left out.
   *
   * @param show what a message may say of a value; secrets are masked by it.
   * @throws Error with the step, the key, what was expected and what was given.
   */
  build(
    config: StepConfig,
    dependencies: StepDependencies,
    onUnknown: (key: string, known: readonly string[]) => void,
    show: (key: string, value: unknown) => unknown = (_key, value) => value,
  ): NamedStep {
    const { type, params = {} } = config;
    const definition = this.#definitions.get(type);
    if (!definition) {
      throw new Error(`unknown step type "${type}", known are: ${this.types.join(', ')}`);
    }
    const known = knownKeys(definition.params);
    const given = Object.entries(params ?? {}).filter(([key, value]) => {
      if (value === null) return false;
      if (!known || known.includes(key)) return true;
      if (!sharedParams.has(key)) onUnknown(key, known);
      return false;
    });
    const result = definition.params.safeParse(Object.fromEntries(given));
    if (!result.success) {
      throw new Error(describeIssue(type, params ?? {}, result.error, show));
    }
    try {
      const run = definition.create(result.data, dependencies);
      const { isTerminal = false, isEntrance = false } = definition;
      return { type, run, isTerminal, isEntrance };
    } catch (cause) {
      throw new Error(`${type}: ${cause instanceof Error ? cause.message : String(cause)}`, {
        cause,
      });
    }
  }
}

/** Defaults of the pipeline section that every step is given, whether it has a use for them or not (coordinator.md 7.6). */
const sharedParams = new Set(['kv_connector', 'ec_connector']);

/**
 * Names that a schema takes; undefined when it takes any, or when it does not tell. Looks at its shape only, since a step
 * from outside may have another copy, or another version, of zod.
 */
function knownKeys(schema: SchemaShape): readonly string[] | undefined {
  const { shape, def } = schema;
  if (shape === undefined) return def?.in && knownKeys(def.in);
  const rest = def?.catchall?.def?.type;
  return rest === undefined || rest === 'never' ? Object.keys(shape) : undefined;
}

/** What is looked at of a schema: `in` is what a transformed schema reads, `catchall` what an object takes besides its shape. */
interface SchemaShape {
  readonly shape?: object;
  readonly def?: {
    readonly type?: string;
    readonly in?: SchemaShape;
    readonly catchall?: SchemaShape;
  };
}

function describeIssue(
  type: string,
  params: object,
  error: z.ZodError,
  show: (key: string, value: unknown) => unknown,
): string {
  const [issue] = error.issues;
  const path = issue?.path.map(String) ?? [];
  let value: unknown = params;
  for (const key of path) value = (value as Record<string, unknown> | undefined)?.[key];
  const given =
    value === undefined ? '' : `, got ${JSON.stringify(show(path.at(-1) ?? '', value))}`;
  const message = issue?.code === 'custom' ? `expected ${issue.message}` : issue?.message;
  return `${[type, ...path].join(': ')}: ${message ?? 'invalid'}${given}`;
}
