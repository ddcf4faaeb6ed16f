import { childNodes, type TemplateNode } from './nodes.ts';

/** How message content reaches the template: as one text, or as a list of parts. */
export type ContentFormat = 'string' | 'openai';

/**
 * Finds out what a template expects, by vLLM's rule: a loop over the content of a message means parts, and so does
 * a loop over a plain name `content` (macro style templates), unless `legacy` asks for the older rule without it.
 */
export function detectContentFormat(program: TemplateNode, legacy = false): ContentFormat {
  const nodes = [...descendants(program)];
  const lists = namesOfMessages(nodes);
  const loops = nodes.filter((node) => node.type === 'For');
  const messages = new Set(
    loops.flatMap((loop) =>
      loop.loopvar.type === 'Identifier' && lists.has(rootName(loop.iterable) ?? '')
        ? [loop.loopvar.value]
        : [],
    ),
  );
  const isOpenAi = loops.some(({ iterable }) => {
    const source = unwrap(iterable);
    if (source.type === 'Identifier') return !legacy && source.value === 'content';
    return (
      source.type === 'MemberExpression' &&
      memberName(source) === 'content' &&
      source.object.type === 'Identifier' &&
      messages.has(source.object.value)
    );
  });
  return isOpenAi ? 'openai' : 'string';
}

function* descendants(node: TemplateNode): Generator<TemplateNode> {
  yield node;
  for (const child of childNodes(node)) yield* descendants(child);
}

/** `messages` and every name that is set from it. */
function namesOfMessages(nodes: readonly TemplateNode[]): ReadonlySet<string> {
  const names = new Set(['messages']);
  let size = 0;
  while (size !== names.size) {
    size = names.size;
    for (const node of nodes) {
      if (
        node.type === 'Set' &&
        node.value !== null &&
        node.assignee.type === 'Identifier' &&
        names.has(rootName(node.value) ?? '')
      ) {
        names.add(node.assignee.value);
      }
    }
  }
  return names;
}

function rootName(node: TemplateNode): string | undefined {
  const source = unwrap(node);
  return source.type === 'Identifier' ? source.value : undefined;
}

/** Looks through filters, tests, loop filters and slices. */
function unwrap(node: TemplateNode): TemplateNode {
  switch (node.type) {
    case 'FilterExpression':
    case 'TestExpression':
      return unwrap(node.operand);
    case 'SelectExpression':
      return unwrap(node.lhs);
    case 'MemberExpression':
      return node.property.type === 'SliceExpression' ? unwrap(node.object) : node;
    default:
      return node;
  }
}

function memberName(node: TemplateNode & { type: 'MemberExpression' }): string | undefined {
  const { property, computed } = node;
  if (!computed) return property.type === 'Identifier' ? property.value : undefined;
  return property.type === 'StringLiteral' ? property.value : undefined;
}
