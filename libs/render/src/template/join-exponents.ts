import { type TemplateToken } from './nodes.ts';

const WHOLE_EXPONENT = /^e\d+$/i;
const DIGITS = /^\d+$/;

/**
 * Tokens with numbers such as `1e-7` in one piece: the package's lexer cuts them into a number, a name and perhaps a
 * sign and another number. No other template has a number right before a name of that spelling.
 */
export function joinExponents(tokens: readonly TemplateToken[]): TemplateToken[] {
  const joined: TemplateToken[] = [];
  let at = 0;
  for (let token = tokens[at]; token !== undefined; token = tokens[at]) {
    const exponent = token.type === 'NumericLiteral' ? exponentAfter(tokens, at) : [];
    joined.push(
      exponent.length === 0 ? token : { ...token, value: toFloat(token.value, exponent) },
    );
    at += 1 + exponent.length;
  }
  return joined;
}

function exponentAfter(tokens: readonly TemplateToken[], at: number): string[] {
  const [name, sign, digits] = tokens.slice(at + 1, at + 4);
  if (name?.type !== 'Identifier') return [];
  if (WHOLE_EXPONENT.test(name.value)) return [name.value];
  const isCut =
    name.value.toLowerCase() === 'e' &&
    sign?.type === 'AdditiveBinaryOperator' &&
    sign.value !== '~' &&
    digits?.type === 'NumericLiteral' &&
    DIGITS.test(digits.value);
  return isCut ? [name.value, sign.value, digits.value] : [];
}

/** With a point, which is how the parser tells a float from an integer. */
function toFloat(mantissa: string, exponent: readonly string[]): string {
  return `${mantissa.includes('.') ? mantissa : `${mantissa}.0`}${exponent.join('')}`;
}
