import { maskSecrets } from './mask-secrets.ts';

/** A configuration that must not start. One line per problem: key, expectation and value. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options);
    this.problems = problems;
  }
}

/** Longest value that a message repeats. */
const shownLength = 80;

/** `gateway.timeout: expected a duration such as 30s, got "30"`. Secrets in the value are masked. */
export function describeProblem(key: string, expectation: string, value: unknown): string {
  const name = key.slice(key.lastIndexOf('.') + 1);
  const text = value === undefined ? 'nothing' : JSON.stringify(maskSecrets(name, value));
  const shown = text.length > shownLength ? `${text.slice(0, shownLength)}…` : text;
  return `${key}: expected ${expectation}, got ${shown}`;
}
