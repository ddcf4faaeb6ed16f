import { CONSTANTS, GLOBALS } from './globals.ts';
import { childNodes, type TemplateNode } from './nodes.ts';

/** Names a template reads from outside: the ones a request may set through `chat_template_kwargs`. */
export function freeVariables(program: TemplateNode): ReadonlySet<string> {
  const free = new Set<string>();
  visit(program, new Set(['loop', 'caller']), free);
  for (const name of [...GLOBALS.keys(), ...CONSTANTS.keys()]) free.delete(name);
  return free;
}

/** Walks in evaluation order: `bound` grows by what is assigned for certain at this level. */
function visit(node: TemplateNode, bound: Set<string>, free: Set<string>): void {
  switch (node.type) {
    case 'Identifier':
      if (!bound.has(node.value)) free.add(node.value);
      return;
    case 'If':
      visit(node.test, bound, free);
      visitBranches(node, bound, free);
      return;
    case 'For':
      visit(
        node.iterable.type === 'SelectExpression' ? node.iterable.lhs : node.iterable,
        bound,
        free,
      );
      visitFor(node, bound, free);
      return;
    case 'Set':
      if (node.value === null) visitAll(node.body, new Set(bound), free);
      else visit(node.value, bound, free);
      assign(node.assignee, bound, free);
      return;
    case 'Macro':
      bound.add(node.name.value);
      visitMacro(node.args, node.body, bound, free);
      return;
    case 'CallStatement':
      visit(node.call, bound, free);
      visitMacro(node.callerArgs ?? [], node.body, bound, free);
      return;
    default:
      visitAll(childNodes(node), bound, free);
  }
}

function visitAll(nodes: readonly TemplateNode[], bound: Set<string>, free: Set<string>): void {
  for (const node of nodes) visit(node, bound, free);
}

/** A name set in one branch only is read from outside after the other. */
function visitBranches(
  node: TemplateNode & { type: 'If' },
  bound: Set<string>,
  free: Set<string>,
): void {
  const inBody = new Set(bound);
  const inAlternate = new Set(bound);
  visitAll(node.body, inBody, free);
  visitAll(node.alternate, inAlternate, free);
  for (const name of inBody) {
    if (inAlternate.has(name)) bound.add(name);
    else free.add(name);
  }
  for (const name of inAlternate) {
    if (!inBody.has(name)) free.add(name);
  }
}

function visitFor(
  node: TemplateNode & { type: 'For' },
  bound: Set<string>,
  free: Set<string>,
): void {
  const inner = new Set(bound);
  assign(node.loopvar, inner, free);
  if (node.iterable.type === 'SelectExpression') visit(node.iterable.test, inner, free);
  visitAll(node.body, inner, free);
  visitAll(node.defaultBlock, new Set(bound), free);
}

function visitMacro(
  parameters: readonly TemplateNode[],
  body: readonly TemplateNode[],
  bound: ReadonlySet<string>,
  free: Set<string>,
): void {
  const inner = new Set(bound);
  for (const parameter of parameters) {
    if (parameter.type === 'Identifier') {
      inner.add(parameter.value);
    } else if (parameter.type === 'KeywordArgumentExpression') {
      visit(parameter.value, inner, free);
      inner.add(parameter.key.value);
    }
  }
  visitAll(body, inner, free);
}

function assign(target: TemplateNode, bound: Set<string>, free: Set<string>): void {
  if (target.type === 'Identifier') bound.add(target.value);
  else if (target.type === 'TupleLiteral') {
    for (const part of target.value) assign(part, bound, free);
  } else visit(target, bound, free);
}
