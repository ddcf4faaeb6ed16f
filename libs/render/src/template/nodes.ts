import { parse, tokenize } from '@huggingface/jinja';

import { joinExponents } from './join-exponents.ts';

interface Operator {
  readonly value: string;
}

/** A node of the tree that `@huggingface/jinja` parses; only the fields that its meaning needs. */
export type TemplateNode =
  | { readonly type: 'Program'; readonly body: readonly TemplateNode[] }
  | { readonly type: 'Comment' }
  | {
      readonly type: 'If';
      readonly test: TemplateNode;
      readonly body: readonly TemplateNode[];
      readonly alternate: readonly TemplateNode[];
    }
  | {
      readonly type: 'For';
      readonly loopvar: TemplateNode;
      readonly iterable: TemplateNode;
      readonly body: readonly TemplateNode[];
      readonly defaultBlock: readonly TemplateNode[];
    }
  | { readonly type: 'Break' | 'Continue' }
  | {
      readonly type: 'Set';
      readonly assignee: TemplateNode;
      readonly value: TemplateNode | null;
      readonly body: readonly TemplateNode[];
    }
  | {
      readonly type: 'Macro';
      readonly name: IdentifierNode;
      readonly args: readonly TemplateNode[];
      readonly body: readonly TemplateNode[];
    }
  | {
      readonly type: 'CallStatement';
      readonly call: CallNode;
      readonly callerArgs: readonly TemplateNode[] | null;
      readonly body: readonly TemplateNode[];
    }
  | {
      readonly type: 'FilterStatement';
      readonly filter: TemplateNode;
      readonly body: readonly TemplateNode[];
    }
  | {
      readonly type: 'MemberExpression';
      readonly object: TemplateNode;
      readonly property: TemplateNode;
      readonly computed: boolean;
    }
  | CallNode
  | IdentifierNode
  | { readonly type: 'IntegerLiteral' | 'FloatLiteral'; readonly value: number }
  | { readonly type: 'StringLiteral'; readonly value: string }
  | {
      readonly type: 'ArrayLiteral' | 'TupleLiteral';
      readonly value: readonly TemplateNode[];
    }
  | { readonly type: 'ObjectLiteral'; readonly value: ReadonlyMap<TemplateNode, TemplateNode> }
  | {
      readonly type: 'BinaryExpression';
      readonly operator: Operator;
      readonly left: TemplateNode;
      readonly right: TemplateNode;
    }
  | {
      readonly type: 'FilterExpression';
      readonly operand: TemplateNode;
      readonly filter: TemplateNode;
    }
  | { readonly type: 'SelectExpression'; readonly lhs: TemplateNode; readonly test: TemplateNode }
  | {
      readonly type: 'TestExpression';
      readonly operand: TemplateNode;
      readonly negate: boolean;
      readonly test: IdentifierNode;
    }
  | {
      readonly type: 'UnaryExpression';
      readonly operator: Operator;
      readonly argument: TemplateNode;
    }
  | {
      readonly type: 'SliceExpression';
      readonly start?: TemplateNode;
      readonly stop?: TemplateNode;
      readonly step?: TemplateNode;
    }
  | {
      readonly type: 'KeywordArgumentExpression';
      readonly key: IdentifierNode;
      readonly value: TemplateNode;
    }
  | {
      readonly type: 'SpreadExpression' | 'KeywordSpreadExpression';
      readonly argument: TemplateNode;
    }
  | {
      readonly type: 'Ternary';
      readonly condition: TemplateNode;
      readonly trueExpr: TemplateNode;
      readonly falseExpr: TemplateNode;
    };

/** A name. */
export interface IdentifierNode {
  readonly type: 'Identifier';
  readonly value: string;
}

/** A call with its arguments. */
export interface CallNode {
  readonly type: 'CallExpression';
  readonly callee: TemplateNode;
  readonly args: readonly TemplateNode[];
}

/** A word or sign of a template, as the package's lexer cuts it. */
export interface TemplateToken {
  readonly type: string;
  readonly value: string;
}

type Lexer = (
  source: string,
  options: { readonly trim_blocks: boolean; readonly lstrip_blocks: boolean },
) => TemplateToken[];

type Parser = (tokens: readonly TemplateToken[]) => TemplateNode;

/** A template as the package's lexer and parser see it, with the settings of transformers. */
export function parseTemplate(source: string): {
  readonly tokens: readonly TemplateToken[];
  readonly program: TemplateNode;
} {
  const text = source.replace(/\r\n?/g, '\n');
  // The package's declarations do not resolve under nodenext, so its functions are given their types here.
  const lexer: unknown = tokenize;
  const parser: unknown = parse;
  const tokens = joinExponents((lexer as Lexer)(text, { trim_blocks: true, lstrip_blocks: true }));
  return { program: (parser as Parser)([...tokens]), tokens };
}

/**
 * True when a list holds a number like `1e5` or `1_000`: the lexer cuts it in two, and the parser takes the rest as
 * the next item without a comma.
 */
export function hasSplitNumber(items: readonly TemplateNode[]): boolean {
  return items.some((item, at) => {
    const before = items[at - 1];
    const isNumber = before?.type === 'IntegerLiteral' || before?.type === 'FloatLiteral';
    const first = firstName(item);
    return isNumber && first !== undefined && /^(?:[eE]\d*|_\d+)$/.test(first);
  });
}

function firstName(node: TemplateNode): string | undefined {
  if (node.type === 'Identifier') return node.value;
  return node.type === 'BinaryExpression' ? firstName(node.left) : undefined;
}

/** The nodes right below a node, in evaluation order. */
export function childNodes(node: TemplateNode): readonly TemplateNode[] {
  switch (node.type) {
    case 'Program':
      return node.body;
    case 'If':
      return [node.test, ...node.body, ...node.alternate];
    case 'For':
      return [node.iterable, node.loopvar, ...node.body, ...node.defaultBlock];
    case 'Set':
      return node.value === null
        ? [...node.body, node.assignee]
        : [node.value, ...node.body, node.assignee];
    case 'Macro':
      return [node.name, ...node.args, ...node.body];
    case 'CallStatement':
      return [node.call, ...(node.callerArgs ?? []), ...node.body];
    case 'FilterStatement':
      return [node.filter, ...node.body];
    case 'MemberExpression':
      return node.computed ? [node.object, node.property] : [node.object];
    case 'CallExpression':
      return [node.callee, ...node.args];
    case 'ArrayLiteral':
    case 'TupleLiteral':
      return node.value;
    case 'ObjectLiteral':
      return [...node.value].flat();
    case 'BinaryExpression':
      return [node.left, node.right];
    case 'FilterExpression':
      return [node.operand, ...(node.filter.type === 'CallExpression' ? node.filter.args : [])];
    case 'SelectExpression':
      return [node.test, node.lhs];
    case 'TestExpression':
      return [node.operand];
    case 'UnaryExpression':
    case 'SpreadExpression':
    case 'KeywordSpreadExpression':
      return [node.argument];
    case 'SliceExpression':
      return [node.start, node.stop, node.step].filter((part) => part !== undefined);
    case 'KeywordArgumentExpression':
      return [node.value];
    case 'Ternary':
      return [node.condition, node.trueExpr, node.falseExpr];
    case 'Comment':
    case 'Break':
    case 'Continue':
    case 'Identifier':
    case 'IntegerLiteral':
    case 'FloatLiteral':
    case 'StringLiteral':
      return [];
  }
}
