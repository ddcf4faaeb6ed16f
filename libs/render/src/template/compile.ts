import { badRequest, notImplemented } from '../errors.ts';
import { iterate, isTruthy } from '../python/operators.ts';
import { toText } from '../python/repr.ts';
import { Callable, Namespace, type CallArguments, type Value } from '../python/value.ts';
import { compileCall, compileExpression, compileFilter } from './expressions.ts';
import { type Evaluate } from './operations.ts';
import { Loop } from './loop.ts';
import { type TemplateNode } from './nodes.ts';
import { type Scope } from './scope.ts';

/** How a block ended: `break` and `continue` travel up to their loop. */
type Signal = 'break' | 'continue' | undefined;
type Execute = (scope: Scope, out: string[]) => Signal;
type Assign = (scope: Scope, value: Value) => void;

/** Turns statements into a function; what cannot be evaluated as Python would is refused here with a 501. */
export function compileBlock(nodes: readonly TemplateNode[]): Execute {
  const statements = nodes.filter((node) => node.type !== 'Comment').map(compileStatement);
  return (scope, out) => {
    for (const statement of statements) {
      scope.run.step();
      const signal = statement(scope, out);
      if (signal !== undefined) return signal;
    }
    return undefined;
  };
}

function compileStatement(node: TemplateNode): Execute {
  switch (node.type) {
    case 'If':
      return compileIf(node);
    case 'For':
      return compileFor(node);
    case 'Set':
      return compileSet(node);
    case 'Macro':
      return compileMacro(node);
    case 'CallStatement':
      return compileCallStatement(node);
    case 'FilterStatement':
      return compileFilterStatement(node);
    case 'Break':
      return () => 'break';
    case 'Continue':
      return () => 'continue';
    default:
      return print(compileExpression(node, true));
  }
}

function print(evaluate: Evaluate): Execute {
  return (scope, out) => {
    const text = toText(evaluate(scope));
    scope.run.print(text);
    out.push(text);
    return undefined;
  };
}

function compileIf(node: TemplateNode & { type: 'If' }): Execute {
  const test = compileExpression(node.test);
  const body = compileBlock(node.body);
  const alternate = compileBlock(node.alternate);
  return (scope, out) => (isTruthy(test(scope)) ? body(scope, out) : alternate(scope, out));
}

function compileFor(node: TemplateNode & { type: 'For' }): Execute {
  const assign = compileTarget(node.loopvar);
  // The parser gives a loop filter and a ternary without else the same node; in a loop it filters.
  const filter =
    node.iterable.type === 'SelectExpression' ? compileExpression(node.iterable.test) : undefined;
  const iterable = compileExpression(
    node.iterable.type === 'SelectExpression' ? node.iterable.lhs : node.iterable,
  );
  const body = compileBlock(node.body);
  const otherwise = compileBlock(node.defaultBlock);
  return (scope, out) => {
    const items = iterate(iterable(scope)).filter((item) => {
      if (filter === undefined) return true;
      const inner = scope.inner();
      assign(inner, item);
      return isTruthy(filter(inner));
    });
    const loop = new Loop(items);
    for (const [at, item] of items.entries()) {
      scope.run.step();
      loop.index0 = at;
      const inner = scope.inner();
      inner.set('loop', loop);
      assign(inner, item);
      if (body(inner, out) === 'break') break;
    }
    return items.length === 0 ? otherwise(scope.inner(), out) : undefined;
  };
}

function compileSet(node: TemplateNode & { type: 'Set' }): Execute {
  const assign = compileTarget(node.assignee);
  const evaluate = node.value === null ? capture(node.body) : compileExpression(node.value);
  return (scope) => {
    assign(scope, evaluate(scope));
    return undefined;
  };
}

/** The text a block prints, as a value. */
function capture(nodes: readonly TemplateNode[]): Evaluate {
  const body = compileBlock(nodes);
  return (scope) => {
    const out: string[] = [];
    if (body(scope.inner(), out) !== undefined) {
      throw notImplemented('break or continue out of a block that is captured');
    }
    return out.join('');
  };
}

function compileTarget(node: TemplateNode): Assign {
  switch (node.type) {
    case 'Identifier':
      return (scope, value) => {
        scope.set(node.value, value);
      };
    case 'TupleLiteral': {
      const targets = node.value.map(compileTarget);
      return (scope, value) => {
        const items = iterate(value);
        if (items.length !== targets.length) {
          throw badRequest(`cannot unpack ${items.length} values into ${targets.length} names`);
        }
        targets.forEach((assign, at) => {
          assign(scope, items[at]);
        });
      };
    }
    case 'MemberExpression': {
      const { property } = node;
      if (node.computed || property.type !== 'Identifier') break;
      const object = compileExpression(node.object);
      return (scope, value) => {
        const target = object(scope);
        if (!(target instanceof Namespace)) {
          throw badRequest('cannot assign attribute on non-namespace object');
        }
        target.attributes.set(property.value, value);
      };
    }
    default:
  }
  throw notImplemented(`assignment to ${node.type}`);
}

interface Parameter {
  readonly name: string;
  readonly fallback: Evaluate | undefined;
}

function compileParameters(nodes: readonly TemplateNode[]): Parameter[] {
  return nodes.map((node) => {
    if (node.type === 'Identifier') return { name: node.value, fallback: undefined };
    if (node.type === 'KeywordArgumentExpression') {
      return { name: node.key.value, fallback: compileExpression(node.value) };
    }
    throw notImplemented(`macro parameter ${node.type}`);
  });
}

/** A callable that runs `body` in a scope of its own inside `scope` and gives the printed text. */
function makeMacro(
  name: string,
  parameters: readonly Parameter[],
  body: Execute,
  scope: Scope,
): Callable {
  return new Callable(name, (args: CallArguments) =>
    scope.run.nested(() => {
      const inner = scope.inner();
      bindMacroArguments(name, parameters, args, inner);
      const out: string[] = [];
      body(inner, out);
      return out.join('');
    }),
  );
}

function bindMacroArguments(
  name: string,
  parameters: readonly Parameter[],
  args: CallArguments,
  inner: Scope,
): void {
  if (args.positional.length > parameters.length) {
    throw badRequest(`macro '${name}' takes not more than ${parameters.length} argument(s)`);
  }
  const unused = new Set(args.named.keys());
  parameters.forEach((parameter, at) => {
    if (at < args.positional.length) {
      if (unused.has(parameter.name)) {
        throw badRequest(`macro '${name}' got multiple values for argument '${parameter.name}'`);
      }
      inner.set(parameter.name, args.positional[at]);
    } else if (unused.delete(parameter.name)) {
      inner.set(parameter.name, args.named.get(parameter.name));
    } else {
      inner.set(parameter.name, parameter.fallback?.(inner));
    }
  });
  if (unused.delete('caller')) inner.set('caller', args.named.get('caller'));
  for (const key of unused) {
    throw badRequest(`macro '${name}' takes no keyword argument '${key}'`);
  }
}

function compileMacro(node: TemplateNode & { type: 'Macro' }): Execute {
  const name = node.name.value;
  const parameters = compileParameters(node.args);
  const body = compileBlock(node.body);
  return (scope) => {
    scope.set(name, makeMacro(name, parameters, body, scope));
    return undefined;
  };
}

function compileCallStatement(node: TemplateNode & { type: 'CallStatement' }): Execute {
  const parameters = compileParameters(node.callerArgs ?? []);
  const body = compileBlock(node.body);
  const call = compileCall(node.call, (scope) => makeMacro('caller', parameters, body, scope));
  return print(call);
}

function compileFilterStatement(node: TemplateNode & { type: 'FilterStatement' }): Execute {
  return print(compileFilter(capture(node.body), node.filter, true));
}
