import { badRequest, notImplemented, RenderError } from '../errors.ts';
import { type Value } from '../python/value.ts';
import { hasChainedComparison } from './chained-comparison.ts';
import { compileBlock } from './compile.ts';
import { detectContentFormat, type ContentFormat } from './content-format.ts';
import { freeVariables } from './free-variables.ts';
import { parseTemplate, type TemplateNode } from './nodes.ts';
import { Run, Scope } from './scope.ts';

/** Statements and loop rounds one rendering may run; real templates need some thousands. */
const MAX_STEPS = 1_000_000;

/** A chat template, parsed and compiled once; rendering leaves nothing behind. */
export class ChatTemplate {
  readonly source: string;
  /** Names the template reads from outside. */
  readonly variables: ReadonlySet<string>;
  private readonly program: TemplateNode;
  /** As detected; the template does not change. */
  private readonly formats: Partial<Record<'current' | 'legacy', ContentFormat>> = {};
  private readonly execute: ReturnType<typeof compileBlock>;

  /** Throws a `RenderError`: 501 that names the first construct outside the supported set, 400 for an unfinished template. */
  constructor(source: string) {
    this.source = source;
    const { program, tokens } = parse(source);
    if (hasChainedComparison(tokens)) throw notImplemented('a chained comparison');
    this.program = program;
    this.execute = compileBlock([...childrenOf(this.program)]);
    this.variables = freeVariables(this.program);
  }

  /** The content format that the template asks for. */
  contentFormat(legacy = false): ContentFormat {
    const name = legacy ? 'legacy' : 'current';
    return (this.formats[name] ??= detectContentFormat(this.program, legacy));
  }

  /** Renders the template; `maxCharacters` bounds its output. A template that raises gives a 400. */
  render(variables: ReadonlyMap<string, Value>, maxCharacters: number): string {
    const scope = new Scope(new Run({ maxSteps: MAX_STEPS, maxCharacters }));
    for (const [name, value] of variables) scope.set(name, value);
    const out: string[] = [];
    try {
      this.execute(scope, out);
    } catch (cause) {
      if (cause instanceof RenderError) throw cause;
      if (cause instanceof RangeError) {
        throw badRequest('the chat template nests too deeply', null, { cause });
      }
      throw cause;
    }
    return out.join('');
  }
}

function parse(source: string): ReturnType<typeof parseTemplate> {
  try {
    return parseTemplate(source);
  } catch (cause) {
    // The parser reads on past the last word only where a block or bracket is left open.
    if (cause instanceof TypeError)
      throw badRequest('Unexpected end of template.', null, { cause });
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw notImplemented(`the chat template (${reason})`);
  }
}

function childrenOf(program: TemplateNode): readonly TemplateNode[] {
  return program.type === 'Program' ? program.body : [program];
}
