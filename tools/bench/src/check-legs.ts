import { isDeepStrictEqual } from 'node:util';
import { type CascadeCase } from './cascade-cases.ts';
import { type SeenLeg } from './stub-upstream.ts';

/** What one request led to. */
export interface Outcome {
  readonly status: number;
  readonly answer: Buffer;
  readonly legs: readonly SeenLeg[];
}

const order = ['render', 'encode', 'prefill', 'decode'];

/** Throws unless an answer is the worker's own and every leg was sent as often as the case needs. */
export function checkOutcome(name: string, test: CascadeCase, outcome: Outcome): void {
  const expected = [1, test.images, 1, 1];
  const counts = order.map((leg) => outcome.legs.filter((seen) => seen.name === leg).length);
  const isRight = outcome.status === 200 && isDeepStrictEqual(counts, expected);
  if (!isRight || !outcome.answer.equals(Buffer.concat(test.answers.decode))) {
    const legs = order.map((leg, i) => `${counts[i]} ${leg}`).join(', ');
    const text = outcome.answer.toString('utf8').slice(0, 500);
    throw new Error(`${name}, ${test.name}: status ${outcome.status}, legs ${legs}: ${text}`);
  }
}

/** Members whose bodies differ between two cascades, as `leg.member`; empty when they do the same work. */
export function differences(a: Outcome, b: Outcome): string[] {
  return order.flatMap((name) => {
    const [mine, theirs] = [a, b].map(({ legs }) => bodiesOf(legs, name));
    const names = new Set([mine, theirs].flatMap((list) => list?.flatMap(Object.keys) ?? []));
    const member = (list: Body[] | undefined, key: string): unknown[] =>
      list?.map((body) => body[key]) ?? [];
    return [...names]
      .filter((key) => !isDeepStrictEqual(member(mine, key), member(theirs, key)))
      .map((key) => `${name}.${key}`);
  });
}

type Body = Readonly<Record<string, unknown>>;

/** Bodies of the legs of a name; encode legs arrive in any order. */
function bodiesOf(legs: readonly SeenLeg[], name: string): Body[] {
  const texts = legs.filter((leg) => leg.name === name).map(({ body }) => body.toString('utf8'));
  return texts.toSorted().map((text) => JSON.parse(text) as Body);
}
