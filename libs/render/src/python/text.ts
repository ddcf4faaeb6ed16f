const SURROGATE = /[\ud800-\udfff]/;
/** What `str.isspace` accepts: wider than JavaScript's `\s` by the separators 1C to 1F and 85, narrower by FEFF. */
const BLANK =
  '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const LEADING_BLANKS = new RegExp(`^[${BLANK}]+`);
const BLANK_RUN = new RegExp(`[${BLANK}]+`);
const LINE_BREAK = new RegExp(`\r\n|[${'\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029'}]`, 'g');
const ONLY_BLANK = new RegExp(`^[${BLANK}]$`);

/** The characters as Python counts them: code points, not UTF-16 units. */
export function codePoints(text: string): string[] {
  return SURROGATE.test(text) ? Array.from(text) : text.split('');
}

/** `len(text)` of Python. */
export function textLength(text: string): number {
  return SURROGATE.test(text) ? Array.from(text).length : text.length;
}

/** True when UTF-16 offsets are Python's offsets. */
export function hasPlainOffsets(text: string): boolean {
  return !SURROGATE.test(text);
}

/** `str.strip`, `lstrip` or `rstrip`; without `characters` it strips what Python calls white space. */
export function strip(
  text: string,
  side: 'both' | 'left' | 'right',
  characters: string | undefined,
): string {
  const isStripped =
    characters === undefined ? (c: string) => ONLY_BLANK.test(c) : stripSet(characters);
  let start = 0;
  let end = text.length;
  while (side !== 'right' && start < end) {
    const character = String.fromCodePoint(text.codePointAt(start) ?? 0);
    if (!isStripped(character)) break;
    start += character.length;
  }
  while (side !== 'left' && start < end) {
    const character = characterBefore(text, end);
    if (!isStripped(character)) break;
    end -= character.length;
  }
  return text.slice(start, end);
}

function characterBefore(text: string, end: number): string {
  const pair = text.slice(Math.max(0, end - 2), end);
  return (pair.codePointAt(0) ?? 0) > 0xffff ? pair : text.slice(end - 1, end);
}

function stripSet(characters: string): (character: string) => boolean {
  const set = new Set(codePoints(characters));
  return (character) => set.has(character);
}

/** `str.split()` without a separator: runs of white space part the words, at most `limit` times. */
export function splitBlank(text: string, limit: number): string[] {
  const words: string[] = [];
  let rest = text.replace(LEADING_BLANKS, '');
  while (rest !== '') {
    const gap = BLANK_RUN.exec(rest);
    if (gap === null || words.length === limit) {
      words.push(rest);
      return words;
    }
    words.push(rest.slice(0, gap.index));
    rest = rest.slice(gap.index + gap[0].length);
  }
  return words;
}

/** `str.splitlines()`. */
export function splitLines(text: string, keepEnds: boolean): string[] {
  const lines: string[] = [];
  let start = 0;
  for (const match of text.matchAll(LINE_BREAK)) {
    const end = match.index + match[0].length;
    lines.push(text.slice(start, keepEnds ? end : match.index));
    start = end;
  }
  if (start < text.length) {
    lines.push(text.slice(start));
  }
  return lines;
}

/** Order of two strings by code point, as Python compares them. */
export function compareText(left: string, right: string): number {
  if (hasPlainOffsets(left) && hasPlainOffsets(right)) {
    return left < right ? -1 : left > right ? 1 : 0;
  }
  const a = codePoints(left);
  const b = codePoints(right);
  for (let index = 0; index < Math.min(a.length, b.length); index++) {
    const difference = (a[index]?.codePointAt(0) ?? 0) - (b[index]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
