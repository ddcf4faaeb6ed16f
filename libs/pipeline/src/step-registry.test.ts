import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { defineStep, type StepDefinition, type StepDependencies } from './step.ts';
import { type StepConfig, StepRegistry } from './step-registry.ts';
import { requestContext } from './testing.ts';

/** The registry hands the dependencies on and does not look at them. */
const dependencies = {} as StepDependencies;

const limited = defineStep({
  type: 'limited',
  params: z.strictObject({
    max_parallel: z.int({ error: 'expected an integer' }).positive().prefault(8),
    mode: z
      .string()
      .refine((value) => value !== 'odd', { error: 'anything but odd' })
      .optional(),
  }),
  create({ max_parallel: maxParallel }) {
    if (maxParallel === 13) throw new Error('13 brings no luck');
    return (ctx) => {
      ctx.captured.set('max-parallel', String(maxParallel));
      return Promise.resolve('continue');
    };
  },
});
const terminal = defineStep({
  type: 'terminal',
  isTerminal: true,
  params: z.strictObject({ kv_connector: z.string().optional() }),
  create: () => () => Promise.resolve('served'),
});

function build(config: StepConfig, definitions: readonly StepDefinition[] = [limited, terminal]) {
  const unknown: [string, readonly string[]][] = [];
  const step = new StepRegistry(definitions).build(config, dependencies, (key, known) =>
    unknown.push([key, known]),
  );
  return { step, unknown };
}

describe('StepRegistry', () => {
  it('makes a step with its defaults', async () => {
    const { step } = build({ type: 'limited' });
    expect(step).toMatchObject({ type: 'limited', isTerminal: false });
    const ctx = requestContext();
    expect(await step.run(ctx)).toBe('continue');
    expect(ctx.captured.get('max-parallel')).toBe('8');
  });

  it('knows which steps answer the client', () => {
    expect(build({ type: 'terminal' }).step.isTerminal).toBe(true);
  });

  it('refuses two definitions of one type', () => {
    expect(() => new StepRegistry([limited, { ...terminal, type: 'limited' }])).toThrow(
      'two step definitions have the type "limited"',
    );
  });

  it('takes definitions of other packages', () => {
    const registry = new StepRegistry([limited]);
    registry.register(terminal);
    expect(registry.types).toEqual(['limited', 'terminal']);
    expect(() => registry.register(terminal)).toThrow('"terminal"');
  });

  it('names the known types when one is unknown', () => {
    expect(() => build({ type: 'encoder' })).toThrow(
      'unknown step type "encoder", known are: limited, terminal',
    );
  });

  it('tells of unknown parameters and leaves them out', () => {
    const { unknown } = build({ type: 'limited', params: { max_paralel: 2, mode: 'a' } });
    expect(unknown).toEqual([['max_paralel', ['max_parallel', 'mode']]]);
  });

  it('does not tell of connectors, which every step is given', () => {
    const params = { kv_connector: 'kv-nixl', ec_connector: 'ec-nixl' };
    expect(build({ type: 'limited', params }).unknown).toEqual([]);
    expect(build({ type: 'terminal', params }).unknown).toEqual([]);
  });

  it('takes null for absent', async () => {
    const { step } = build({ type: 'limited', params: { max_parallel: null } });
    const ctx = requestContext();
    await step.run(ctx);
    expect(ctx.captured.get('max-parallel')).toBe('8');
  });

  it.each([
    {
      params: { max_parallel: '4' },
      message: 'limited: max_parallel: expected an integer, got "4"',
    },
    { params: { max_parallel: 0 }, message: /^limited: max_parallel: .*, got 0$/ },
    { params: { mode: 'odd' }, message: 'limited: mode: expected anything but odd, got "odd"' },
    { params: { max_parallel: 13 }, message: 'limited: 13 brings no luck' },
  ])('says what is wrong with $params', ({ params, message }) => {
    expect(() => build({ type: 'limited', params })).toThrow(message);
  });

  it('does not change the parameters that it was given', () => {
    const params = Object.freeze({ max_parallel: 2, other: 1 });
    build({ type: 'limited', params });
    expect(params).toEqual({ max_parallel: 2, other: 1 });
  });

  it('lets a step with a schema of another kind check its own keys', () => {
    const open = defineStep({
      type: 'open',
      params: z.record(z.string(), z.number()),
      create: () => () => Promise.resolve('continue'),
    });
    expect(build({ type: 'open', params: { any: 1 } }, [open]).unknown).toEqual([]);
    expect(() => build({ type: 'open', params: { any: 'x' } }, [open])).toThrow('open: any');
  });

  it.each([
    { name: 'an object', params: z.strictObject({ own: z.int().optional() }) },
    {
      name: 'an object that is transformed',
      params: z.strictObject({ own: z.int().optional() }).transform(({ own }) => own),
    },
    {
      name: 'an object with a check of the whole',
      params: z.strictObject({ own: z.int().optional() }).refine(() => true),
    },
  ])('keeps from $name what it does not know', ({ params }) => {
    const step = defineStep({ type: 's', params, create: () => () => Promise.resolve('served') });
    const config = { type: 's', params: { own: 1, odd: 2, kv_connector: 'kv-nixl' } };
    expect(build(config, [step]).unknown).toEqual([['odd', ['own']]]);
  });

  it.each([
    { name: 'a loose object', params: z.looseObject({ own: z.int().optional() }) },
    { name: 'a record', params: z.record(z.string(), z.unknown()) },
  ])('gives $name everything', ({ params }) => {
    let seen: unknown;
    const step = defineStep<z.ZodType>({
      type: 's',
      params,
      create: (given) => {
        seen = given;
        return () => Promise.resolve('served');
      },
    });
    const given = { own: 1, odd: 2, kv_connector: 'kv-nixl' };
    expect(build({ type: 's', params: given }, [step]).unknown).toEqual([]);
    expect(seen).toEqual(given);
  });

  it('shows no more of a value than it is told', () => {
    const make = () =>
      new StepRegistry([limited]).build(
        { type: 'limited', params: { max_parallel: 'geheim' } },
        dependencies,
        () => {},
        (key) => `${key} masked`,
      );
    expect(make).toThrow('limited: max_parallel: expected an integer, got "max_parallel masked"');
  });
});
