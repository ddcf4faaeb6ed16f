import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from '@jest/globals';

import { RenderError } from '../errors.ts';
import { parseJson } from '../json/parse-json.ts';
import { fromJson, type Value } from '../python/value.ts';
import { ChatTemplate } from './chat-template.ts';

interface GoldenCase {
  readonly template: string;
  readonly text?: string;
  readonly error?: string;
}

const folder = join(import.meta.dirname, '../testdata/template');
const [header = '{}', ...lines] = readFileSync(join(folder, 'golden.jsonl'), 'utf8')
  .trim()
  .split('\n');
const context = variables((JSON.parse(header) as { context: string }).context);
const golden = lines.map((line) => JSON.parse(line) as GoldenCase);

function variables(json: string): ReadonlyMap<string, Value> {
  const value = parseJson(Buffer.from(json));
  if (!(value instanceof Map)) throw new Error('the context is an object');
  return new Map([...value].map(([name, item]) => [name, fromJson(item)]));
}

function render(source: string, json = '{}'): string {
  return new ChatTemplate(source).render(variables(json), 10_000);
}

function refusal(run: () => unknown): RenderError {
  try {
    run();
  } catch (error) {
    if (error instanceof RenderError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('templates print what Python prints', () => {
  it.each(golden)('$template', ({ template, text }) => {
    const run = () => new ChatTemplate(template).render(context, 100_000);
    if (text === undefined) {
      // Where Python raises, a refusal of either kind is right and a text is wrong.
      expect([400, 501]).toContain(refusal(run).status);
    } else {
      expect(run()).toBe(text);
    }
  });
});

describe('constructs outside the supported set', () => {
  it.each([
    '{{ x | urlencode }}',
    '{{ x | groupby("a") }}',
    '{{ x is divisibleby(2) }}',
    '{{ x is sameas y }}',
    '{{ 1 < 2 < 3 }}',
    '{{ a == b in c }}',
    '{{ (1) < 2 not in x }}',
    '{% for x in y == z == w %}{% endfor %}',
    '{{ f(a == b == c) }}',
    '{{ (x | safe) + "a" }}',
    '{{ [1_000] }}',
    '{{ ("a",) }}',
    '{{ cycler(1, 2) }}',
    '{% raw %}x{% endraw %}',
    '{% for x in y recursive %}{% endfor %}',
    '{% include "x" %}',
    '{% macro m() %}{{ varargs }}{% endmacro %}',
  ])('%s is refused when the template is loaded', (source) => {
    const { status, type } = refusal(() => new ChatTemplate(source));
    expect({ status, type }).toEqual({ status: 501, type: 'NotImplementedError' });
  });

  it.each(['{% for m in messages %}', '{% if a %}b'])('%s is refused as unfinished', (source) => {
    const { status, type } = refusal(() => new ChatTemplate(source));
    expect({ status, type }).toEqual({ status: 400, type: 'BadRequestError' });
  });

  it('reads numbers with exponents, which the lexer cuts apart', () => {
    const template = new ChatTemplate('{{ [1e5, 1.5E+3, 2e-7, 1e21] }} {{ 1e2 - 1 }} {{ 3 - 1 }}');
    expect(template.render(new Map(), 100)).toBe('[100000.0, 1500.0, 2e-07, 1e+21] 99.0 2');
  });

  it.each([
    { name: 'text formatting', source: '{{ "%s" % 1 }}', names: /formatting with %/ },
    { name: 'a method', source: '{{ "a".zfill(3) }}', names: /str\.zfill/ },
    { name: 'a dunder', source: '{{ "a".__class__ }}', names: /__class__/ },
    { name: 'a printed generator', source: '{{ [1] | map("string") }}', names: /generator/ },
  ])('$name is refused when it is used', ({ source, names }) => {
    const { status, message } = refusal(() => render(source));
    expect(status).toBe(501);
    expect(message).toMatch(names);
  });
});

describe('limits of one rendering', () => {
  it('ends a template that prints too much', () => {
    const source = '{% for x in range(1000) %}{{ "0123456789" * 10 }}{% endfor %}';
    expect(refusal(() => render(source)).message).toMatch(/more than 10000 characters/);
  });

  it('ends a template that builds too much text', () => {
    expect(refusal(() => render('{% set x = "a" * 1000000 %}')).message).toMatch(/more than/);
    const doubling =
      '{% set ns = namespace(s="0123456789") %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}';
    expect(refusal(() => render(doubling)).message).toMatch(/more than/);
  });

  it('ends a template that loops too long', () => {
    const loop = (body: string): string => `{% for i in range(100000) %}${body}{% endfor %}`;
    expect(refusal(() => render(loop(loop('')))).message).toMatch(/more than 1000000 steps/);
  });

  it('ends macros that call each other for ever', () => {
    const source = '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}';
    expect(refusal(() => render(source)).message).toMatch(/200 deep/);
  });
});

describe('what a template tells about itself', () => {
  it.each([
    {
      source: '{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}',
      format: 'openai',
    },
    {
      source: '{% for m in messages %}{% for c in m["content"] | list %}{% endfor %}{% endfor %}',
      format: 'openai',
    },
    {
      source:
        '{% set x = messages[1:] %}{% for m in x %}{% for c in m.content %}{% endfor %}{% endfor %}',
      format: 'openai',
    },
    { source: '{% for m in messages %}{{ m.content }}{% endfor %}', format: 'string' },
    {
      source: '{% for m in other %}{% for c in m.content %}{% endfor %}{% endfor %}',
      format: 'string',
    },
    {
      source: '{% macro p(content) %}{% for c in content %}{% endfor %}{% endmacro %}',
      format: 'openai',
    },
  ])('$source wants the format $format', ({ source, format }) => {
    expect(new ChatTemplate(source).contentFormat()).toBe(format);
  });

  it('keeps the older rule for macro templates on demand', () => {
    const template = new ChatTemplate('{% for c in content %}{% endfor %}');
    expect(template.contentFormat(true)).toBe('string');
  });

  it.each([
    { source: '{{ a }}{% set b = c %}{{ b }}', free: ['a', 'c'] },
    { source: '{% if x is not defined %}{% set x = 1 %}{% endif %}{{ x }}', free: ['x'] },
    {
      source: '{% for m in messages if k %}{{ m }}{{ loop.index }}{% endfor %}{{ m }}',
      free: ['k', 'm', 'messages'],
    },
    {
      source: '{% macro f(a, b=d) %}{{ a }}{{ b }}{{ e }}{% endmacro %}{{ f(1) }}',
      free: ['d', 'e'],
    },
    { source: '{{ range(3) }}{{ raise_exception("x") }}{{ true }}', free: [] },
  ])('$source reads $free', ({ source, free }) => {
    expect([...new ChatTemplate(source).variables].sort()).toEqual(free);
  });

  it('prints local dates', () => {
    expect(render('{{ strftime_now("%Y") }}')).toBe(String(new Date().getFullYear()));
    expect(refusal(() => render('{{ strftime_now("%Q") }}')).message).toMatch(/%Q/);
  });
});
