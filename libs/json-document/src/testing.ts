import fc from 'fast-check';

/**
 * Decisions of a test case, drawn from a list of numbers. When the list is used up every decision is 0, the simplest
 * one: so shorter lists make shorter texts, and fast-check shrinks texts by shrinking lists.
 */
export class Choices {
  readonly #numbers: readonly number[];
  #at = 0;

  constructor(numbers: readonly number[]) {
    this.#numbers = numbers;
  }

  /** A whole number from 0 to `count - 1`. */
  below(count: number): number {
    return (this.#numbers[this.#at++] ?? 0) % count;
  }

  /** True in `likely` of 8 cases; false when the list is used up. */
  chance(likely: number): boolean {
    return this.below(8) >= 8 - likely;
  }

  /** One of the items, the first when the list is used up. */
  of<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error('there is nothing to choose from');
    return item;
  }
}

/** Lists of up to `maxLength` numbers to make `Choices` of. */
export const decisions = (maxLength: number): fc.Arbitrary<number[]> =>
  fc.array(fc.nat({ max: 0xffff }), { maxLength, size: 'max' });

const blanks = ['', '', '', '', ' ', '\n', '\t', '\r\n', '  \t \n'];

const numbers = [
  ...['0', '-0', '1', '-1', '7', '10', '151644', '4294967296', '9007199254740993'],
  ...['0.5', '-0.0', '1.0', '3.14159', '100.001', '-12.50', '0.1e1', '12345678901234567890.5'],
  ...['1e5', '1E5', '1e+5', '1E-5', '-1.25e+10', '0e0', '0E-0', '1e400', '-1e400', '1e-400'],
  ...['123456789012345678901234567890', '5e-324', '1.7976931348623157e308'],
];

const stringParts = [
  ...['', 'a', 'role', 'plain text ', ' ', '/', '{', '}]', ',', ':', '0', '"', '\\'],
  ...['\\/', '\\b', '\\f', '\\n', '\\r', '\\t', '\\u0000', '\\u0041', '\\u00e9', '\\u20AC'],
  ...['\\uD83D\\uDE00', '\\ud83d\\ude00', '\\u2028', '\\"', '\\\\', '\\\\\\"'],
  ...['é', '€', '😀', '\u007f', '\u2028', '\uffff', 'x'.repeat(47), 'y'.repeat(48), 'z'.repeat(49)],
];

const loneSurrogates = ['\\ud800', '\\uDFFF', '\\uDC00\\uD800', '\\ud800\\ud800\\udc00'];

const commonNames = [
  ...['a', 'b', '\\u0061', 'model', 'mod\\u0065l', '', '__proto__', '0', 'é', '\\u00e9'],
];

/** Text between quotes as it stands in a valid document. */
function stringText(random: Choices, hasLone: boolean): string {
  let text = '';
  while (random.chance(5)) {
    const part = random.of(stringParts);
    text += part === '"' || part === '\\' ? `\\${part}` : part;
    if (hasLone && random.chance(1)) text += random.of(loneSurrogates);
  }
  return text;
}

function numberText(random: Choices): string {
  if (random.chance(5)) return random.of(numbers);
  return String(random.below(0x10000));
}

function scalarText(random: Choices): string {
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return numberText(random);
    case 3:
      return 'true';
    case 4:
      return 'false';
    case 5:
      return 'null';
    default:
      return `"${stringText(random, true)}"`;
  }
}

/**
 * Names repeat often, in several spellings. Two things are left out: lone surrogates, because two of them decode to one
 * name, and backslashes, because JSON.parse of Node 24 takes other names for one that holds a backslash and that it has
 * read before (https://github.com/nodejs/node/issues/63785).
 */
const nameText = (random: Choices): string =>
  random.chance(5) ? random.of(commonNames) : stringText(random, false).replaceAll('\\\\', '');

function containerText(random: Choices, open: '{' | '[', depth: number): string {
  const blank = (): string => random.of(blanks);
  let text = open + blank();
  let separator = '';
  while (random.chance(5)) {
    const name = open === '{' ? `"${nameText(random)}"${blank()}:${blank()}` : '';
    text += `${separator}${name}${valueText(random, depth + 1)}${blank()}`;
    separator = `,${blank()}`;
  }
  return text + (open === '{' ? '}' : ']');
}

function valueText(random: Choices, depth: number): string {
  if (random.chance(1)) return nestedText(random);
  if (depth > 6 || !random.chance(depth < 2 ? 6 : 3)) return scalarText(random);
  if (random.chance(1))
    return JSON.stringify(Array.from({ length: random.below(20) }, (_, i) => i * 7));
  return containerText(random, random.chance(5) ? '{' : '[', depth);
}

/** Up to 60 containers around one value. */
function nestedText(random: Choices): string {
  let [before, after] = ['', ''];
  for (let level = random.below(60); level > 0; level--) {
    const isList = random.chance(4);
    before += isList ? '[' : '{"a":';
    after = (isList ? ']' : '}') + after;
  }
  return before + scalarText(random) + after;
}

/** A valid text of any kind, with blanks around it. */
export const jsonText = (random: Choices): string =>
  random.of(blanks) + valueText(random, 0) + random.of(blanks);

/** A valid text of an object, with blanks around it. */
export const objectText = (random: Choices): string =>
  random.of(blanks) + containerText(random, '{', 0) + random.of(blanks);

const fragments = [
  ...['0', ',', ':', '"', '\\', '{', '}', '[', ']', '-', '.', 'e', 'E', '+', ' ', '\t'],
  ...['\0', '\u0001', '\u001f', '\v', '\f', '\u00a0', '\ufeff', "'", '/', '//', 'n', 'NaN', 'nul'],
  ...[
    'True',
    'Infinity',
    '01',
    '-',
    '.5',
    '1.',
    '1e',
    '1e+',
    '0x1',
    '\\x',
    '\\u',
    '\\u12',
    '\\uD8',
  ],
  ...['\n', '{}', '[]', '{"a"', '[1,', ',,', '""', '"\\ud800"', 'é', '😀'],
];

/** Bytes that are no UTF-8: stray, cut, overlong, half of a surrogate pair, beyond U+10FFFF. */
const malformed = ['80', 'ff', 'c3', 'e282', 'f09f98', 'c0af', 'eda080', 'f4908080'];

/** Changes a text at one to three places; the result may be valid all the same. */
export function mutated(random: Choices, text: string): Uint8Array {
  let bytes = Buffer.from(text);
  for (let count = 1 + random.below(3); count > 0; count--) {
    const at = random.below(bytes.length + 1);
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
    const rest = after.subarray(random.below(4));
    switch (random.below(6)) {
      case 0:
        bytes = before;
        break;
      case 1:
        bytes = Buffer.concat([before, Buffer.from(random.of(fragments)), after]);
        break;
      case 2:
        bytes = Buffer.concat([before, Buffer.from(random.of(fragments)), rest]);
        break;
      case 3:
        bytes = Buffer.concat([before, rest]);
        break;
      case 4:
        bytes = Buffer.concat([
          before,
          Uint8Array.of((after[0] ?? 0) ^ (1 << random.below(8))),
          after.subarray(1),
        ]);
        break;
      case 5:
        bytes = Buffer.concat([before, Buffer.from(random.of(malformed), 'hex'), rest]);
    }
  }
  return bytes;
}
