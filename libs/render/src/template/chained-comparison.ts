import { type TemplateToken } from './nodes.ts';

const OPENING = new Set(['(', '[', '{']);
const CLOSING = new Set([')', ']', '}']);
/** Words that bind looser than a comparison, so a chain ends there. */
const LOOSER = new Set(['and', 'or', 'not', 'if', 'else']);
/** Signs that part expressions, and the ends of tags. */
const SEPARATORS = new Set([
  'Comma',
  'Colon',
  'Equals',
  'CloseStatement',
  'CloseExpression',
  'Text',
]);

/**
 * True when a template compares in a chain, such as `a < b < c`. Python gives that a meaning of its own, while the
 * parser nests it like `(a < b) < c`; only the words still tell the two apart.
 */
export function hasChainedComparison(tokens: readonly TemplateToken[]): boolean {
  /** Comparisons of the current expression, one count per open bracket. */
  const counts = [0];
  for (const [at, { type, value }] of tokens.entries()) {
    const depth = counts.length - 1;
    if (type === 'StringLiteral') continue;
    if (OPENING.has(value)) {
      counts.push(0);
    } else if (CLOSING.has(value) && depth > 0) {
      counts.pop();
    } else if (SEPARATORS.has(type) || (type === 'Identifier' && endsChain(tokens, at))) {
      counts[depth] = 0;
    } else if (type === 'ComparisonBinaryOperator' || (type === 'Identifier' && value === 'in')) {
      const count = (counts[depth] ?? 0) + 1;
      if (count > 1) return true;
      counts[depth] = count;
    }
  }
  return false;
}

/** `not in` is a comparison, and the `in` of a `for` tag none. */
function endsChain(tokens: readonly TemplateToken[], at: number): boolean {
  const value = tokens[at]?.value ?? '';
  if (value === 'not') return tokens[at + 1]?.value !== 'in';
  if (value !== 'in') return LOOSER.has(value);
  return isLoopWord(tokens, at);
}

function isLoopWord(tokens: readonly TemplateToken[], at: number): boolean {
  const start = tokens.slice(0, at).findLastIndex(({ type }) => type === 'OpenStatement');
  if (tokens[start + 1]?.value !== 'for') return false;
  return tokens.slice(start, at).every(({ value }) => value !== 'in');
}
