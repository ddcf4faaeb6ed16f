import { badRequest, notImplemented } from '../errors.ts';
import {
  areEqual,
  arithmetic,
  bounded,
  compare,
  contains,
  isTruthy,
  type ArithmeticOperator,
} from '../python/operators.ts';
import { toText } from '../python/repr.ts';
import { isNumber, typeName, type Value } from '../python/value.ts';
import { type Scope } from './scope.ts';

/** A compiled expression. */
export type Evaluate = (scope: Scope) => Value;

const ARITHMETIC: ReadonlySet<string> = new Set(['+', '-', '*', '/', '//', '%', '**']);

/** The function of an operator before its operand. */
export function unaryOperation(operator: string, argument: Evaluate): Evaluate {
  switch (operator) {
    case 'not':
      return (scope) => !isTruthy(argument(scope));
    case '-':
      return (scope) => {
        const value = argument(scope);
        if (typeof value === 'bigint' || typeof value === 'number') return -value;
        if (typeof value === 'boolean') return value ? -1n : 0n;
        throw badRequest(`bad operand type for unary -: '${typeName(value)}'`);
      };
    case '+':
      return (scope) => {
        const value = argument(scope);
        if (isNumber(value)) return typeof value === 'boolean' ? BigInt(value) : value;
        throw badRequest(`bad operand type for unary +: '${typeName(value)}'`);
      };
    default:
      throw notImplemented(`operator ${operator}`);
  }
}

/** The function of an operator between its operands. */
export function binaryOperation(operator: string, left: Evaluate, right: Evaluate): Evaluate {
  switch (operator) {
    case 'and':
      return (scope) => {
        const value = left(scope);
        return isTruthy(value) ? right(scope) : value;
      };
    case 'or':
      return (scope) => {
        const value = left(scope);
        return isTruthy(value) ? value : right(scope);
      };
    case '==':
      return (scope) => areEqual(left(scope), right(scope));
    case '!=':
      return (scope) => !areEqual(left(scope), right(scope));
    case '<':
      return (scope) => compare(left(scope), right(scope)) < 0;
    case '<=':
      return (scope) => compare(left(scope), right(scope)) <= 0;
    case '>':
      return (scope) => compare(left(scope), right(scope)) > 0;
    case '>=':
      return (scope) => compare(left(scope), right(scope)) >= 0;
    case 'in':
      return (scope) => {
        const item = left(scope);
        return contains(right(scope), item);
      };
    case 'not in':
      return (scope) => {
        const item = left(scope);
        return !contains(right(scope), item);
      };
    case '~':
      return (scope) =>
        bounded(toText(left(scope)) + toText(right(scope)), scope.run.maxCharacters);
    default:
      if (!isArithmetic(operator)) throw notImplemented(`operator ${operator}`);
      return arithmeticOperation(operator, left, right);
  }
}

function arithmeticOperation(
  operator: ArithmeticOperator,
  left: Evaluate,
  right: Evaluate,
): Evaluate {
  return (scope) => {
    const a = left(scope);
    const b = right(scope);
    if (operator === '%' && typeof a === 'string') throw notImplemented('text formatting with %');
    return arithmetic(operator, a, b, scope.run.maxCharacters);
  };
}

function isArithmetic(operator: string): operator is ArithmeticOperator {
  return ARITHMETIC.has(operator);
}
