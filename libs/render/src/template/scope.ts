import { badRequest } from '../errors.ts';
import { type Value } from '../python/value.ts';

/** Limits of one rendering, shared by all of its scopes. */
export class Run {
  /** Longest text that may be built, in UTF-16 units. */
  readonly maxCharacters: number;
  private stepsLeft: number;
  private charactersLeft: number;
  private depth = 0;
  private readonly maxSteps: number;

  constructor(limits: { readonly maxSteps: number; readonly maxCharacters: number }) {
    this.maxSteps = limits.maxSteps;
    this.stepsLeft = limits.maxSteps;
    this.maxCharacters = limits.maxCharacters;
    this.charactersLeft = limits.maxCharacters;
  }

  /** Counts one statement. */
  step(): void {
    if (--this.stepsLeft < 0) {
      throw badRequest(`the chat template ran more than ${this.maxSteps} steps`);
    }
  }

  /** Counts printed text. */
  print(text: string): void {
    this.charactersLeft -= text.length;
    if (this.charactersLeft < 0) {
      throw badRequest(`the chat template printed more than ${this.maxCharacters} characters`);
    }
  }

  /** Runs a macro body; nesting beyond the limit is an error instead of a full stack. */
  nested<T>(body: () => T): T {
    if (this.depth >= MAX_MACRO_DEPTH) {
      throw badRequest(
        `macros of the chat template call each other more than ${MAX_MACRO_DEPTH} deep`,
      );
    }
    this.depth++;
    try {
      return body();
    } finally {
      this.depth--;
    }
  }
}

const MAX_MACRO_DEPTH = 200;

/** The variables of a template, a loop round or a macro call; lookups go outwards, assignments stay. */
export class Scope {
  readonly run: Run;
  private readonly parent: Scope | undefined;
  private readonly variables = new Map<string, Value>();

  constructor(run: Run, parent?: Scope) {
    this.run = run;
    this.parent = parent;
  }

  get(name: string): Value {
    const value = this.variables.get(name);
    return value !== undefined || this.variables.has(name) ? value : this.parent?.get(name);
  }

  set(name: string, value: Value): void {
    this.variables.set(name, value);
  }

  /** A scope inside this one. */
  inner(): Scope {
    return new Scope(this.run, this);
  }
}
