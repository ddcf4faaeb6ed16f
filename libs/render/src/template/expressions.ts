import { badRequest, notImplemented } from '../errors.ts';
import { getAttribute, getItem, getSlice } from '../python/attributes.ts';
import { isTruthy, iterate } from '../python/operators.ts';
import { toText } from '../python/repr.ts';
import {
  Callable,
  isDict,
  Sequence,
  typeName,
  type CallArguments,
  type Value,
} from '../python/value.ts';
import { FILTERS } from './filters.ts';
import { CONSTANTS, GLOBALS, UNSUPPORTED_GLOBALS } from './globals.ts';
import { hasSplitNumber, type CallNode, type TemplateNode } from './nodes.ts';
import { binaryOperation, type Evaluate, unaryOperation } from './operations.ts';
import { type Scope } from './scope.ts';
import { TESTS } from './tests.ts';

/** What macros of Jinja offer beyond parameters; a template that reads one is refused. */
const UNSUPPORTED_NAMES = new Set(['varargs', 'kwargs', 'self', 'super']);

/**
 * Turns an expression into a function. `isPrinted` is true for the whole expression of `{{ }}`, the only place
 * where the filter `safe` changes nothing.
 */
export function compileExpression(node: TemplateNode, isPrinted = false): Evaluate {
  switch (node.type) {
    case 'StringLiteral': {
      const { value } = node;
      return () => value;
    }
    case 'IntegerLiteral': {
      if (!Number.isSafeInteger(node.value)) throw notImplemented('an integer beyond 2^53');
      const value = BigInt(node.value);
      return () => value;
    }
    case 'FloatLiteral': {
      const { value } = node;
      return () => value;
    }
    case 'Identifier':
      return compileName(node.value);
    case 'ArrayLiteral': {
      if (hasSplitNumber(node.value)) throw notImplemented('a number with an exponent');
      const items = node.value.map((item) => compileExpression(item));
      return (scope) => items.map((item) => item(scope));
    }
    case 'TupleLiteral': {
      const items = node.value.map((item) => compileExpression(item));
      return (scope) =>
        new Sequence(
          'tuple',
          items.map((item) => item(scope)),
        );
    }
    case 'ObjectLiteral':
      return compileDict(node);
    case 'MemberExpression':
      return compileMember(node);
    case 'CallExpression':
      return compileCall(node);
    case 'FilterExpression':
      return compileFilter(compileExpression(node.operand), node.filter, isPrinted);
    case 'TestExpression':
      return compileTest(node);
    case 'UnaryExpression':
      return unaryOperation(node.operator.value, compileExpression(node.argument));
    case 'BinaryExpression':
      return binaryOperation(
        node.operator.value,
        compileExpression(node.left),
        compileExpression(node.right),
      );
    case 'SelectExpression': {
      const test = compileExpression(node.test);
      const value = compileExpression(node.lhs);
      return (scope) => (isTruthy(test(scope)) ? value(scope) : undefined);
    }
    case 'Ternary': {
      const condition = compileExpression(node.condition);
      const whenTrue = compileExpression(node.trueExpr);
      const whenFalse = compileExpression(node.falseExpr);
      return (scope) => (isTruthy(condition(scope)) ? whenTrue(scope) : whenFalse(scope));
    }
    default:
      throw notImplemented(`template construct ${node.type}`);
  }
}

function compileName(name: string): Evaluate {
  if (CONSTANTS.has(name)) {
    const value = CONSTANTS.get(name);
    return () => value;
  }
  if (UNSUPPORTED_NAMES.has(name) || UNSUPPORTED_GLOBALS.has(name)) {
    throw notImplemented(`template name ${name}`);
  }
  const global = GLOBALS.get(name);
  return (scope) => {
    const value = scope.get(name);
    return value === undefined ? global : value;
  };
}

function compileDict(node: TemplateNode & { type: 'ObjectLiteral' }): Evaluate {
  const entries = [...node.value].map(
    ([key, value]) => [compileExpression(key), compileExpression(value)] as const,
  );
  return (scope) => {
    const dict = new Map<Value, Value>();
    for (const [key, value] of entries) {
      const name = key(scope);
      if (typeof name !== 'string' && typeof name !== 'bigint') {
        throw notImplemented(`a dict key of type ${typeName(name)}`);
      }
      dict.set(name, value(scope));
    }
    return dict;
  };
}

function compileMember(node: TemplateNode & { type: 'MemberExpression' }): Evaluate {
  const object = compileExpression(node.object);
  const { property } = node;
  if (property.type === 'SliceExpression') {
    const [start, stop, step] = [property.start, property.stop, property.step].map((part) =>
      part === undefined ? undefined : compileExpression(part),
    );
    return (scope) => getSlice(object(scope), start?.(scope), stop?.(scope), step?.(scope));
  }
  if (!node.computed && property.type === 'Identifier') {
    const name = property.value;
    return (scope) => getAttribute(object(scope), name);
  }
  const key = compileExpression(property);
  return (scope) => getItem(object(scope), key(scope));
}

/** A call; `caller` makes the extra argument that a `{% call %}` block passes. */
export function compileCall(node: CallNode, caller?: (scope: Scope) => Value): Evaluate {
  const callee = compileExpression(node.callee);
  const args = compileArguments(node.args);
  return (scope) => {
    const target = callee(scope);
    if (!(target instanceof Callable)) {
      throw badRequest(`'${typeName(target)}' object is not callable`);
    }
    const given = args(scope);
    if (caller === undefined) return target.call(given);
    return target.call({
      positional: given.positional,
      named: new Map([...given.named, ['caller', caller(scope)]]),
    });
  };
}

function compileArguments(nodes: readonly TemplateNode[]): (scope: Scope) => CallArguments {
  if (hasSplitNumber(nodes)) throw notImplemented('a number with an exponent');
  const steps = nodes.map((node): ((scope: Scope, into: Collected) => void) => {
    switch (node.type) {
      case 'KeywordArgumentExpression': {
        const value = compileExpression(node.value);
        return (scope, into) => into.named.set(node.key.value, value(scope));
      }
      case 'SpreadExpression': {
        const value = compileExpression(node.argument);
        return (scope, into) => into.positional.push(...iterate(value(scope)));
      }
      case 'KeywordSpreadExpression': {
        const value = compileExpression(node.argument);
        return (scope, into) => {
          spreadNamed(value(scope), into.named);
        };
      }
      default: {
        const value = compileExpression(node);
        return (scope, into) => into.positional.push(value(scope));
      }
    }
  });
  return (scope) => {
    const collected: Collected = { positional: [], named: new Map() };
    for (const step of steps) step(scope, collected);
    return collected;
  };
}

interface Collected {
  readonly positional: Value[];
  readonly named: Map<string, Value>;
}

function spreadNamed(value: Value, named: Map<string, Value>): void {
  if (!isDict(value)) throw badRequest('argument after ** must be a mapping');
  for (const [key, item] of value) named.set(toText(key), item);
}

/** Applies a filter by name, with the arguments of its call. */
export function compileFilter(operand: Evaluate, node: TemplateNode, isPrinted: boolean): Evaluate {
  const name = node.type === 'CallExpression' ? node.callee : node;
  if (name.type !== 'Identifier') throw notImplemented(`filter expression ${name.type}`);
  const filter = FILTERS.get(name.value);
  if (filter === undefined) throw notImplemented(`filter ${name.value}`);
  if (name.value === 'safe' && !isPrinted) throw notImplemented('filter safe inside an expression');
  const args = compileArguments(node.type === 'CallExpression' ? node.args : []);
  return (scope) => filter(operand(scope), args(scope), scope.run);
}

function compileTest(node: TemplateNode & { type: 'TestExpression' }): Evaluate {
  const test = TESTS.get(node.test.value);
  if (test === undefined || test.length > 1) throw notImplemented(`test ${node.test.value}`);
  const operand = compileExpression(node.operand);
  const { negate } = node;
  return (scope) => test(operand(scope), undefined) !== negate;
}
