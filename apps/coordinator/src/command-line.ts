import {
  ConfigError,
  type Flags,
  flagNames,
  nearestName,
  parseFlags,
  programText,
} from '@llm-d/config';

/** What a command line asks the program to do. */
export type Command =
  | { readonly name: 'run' | 'validate' | 'explain'; readonly flags: Flags }
  | { readonly name: 'print'; readonly text: string };

const packageFile = new URL('../package.json', import.meta.url);
const commandNames = ['validate', 'explain'] as const;

/**
 * Reads `[validate|explain] [FILE] [FLAGS]`; without a command the coordinator runs. Throws a ConfigError for what it
 * does not know.
 */
export function parseCommand(argv: readonly string[]): Command {
  const text = programText(argv, { name: 'coordinator', packageFile, help: helpText });
  if (text !== undefined) return { name: 'print', text };
  const [first = '', second = ''] = argv;
  const name = commandNames.find((known) => known === first);
  if (name) {
    const hasFile = second !== '' && !second.startsWith('-');
    const flags = parseFlags(argv.slice(hasFile ? 2 : 1));
    return { name, flags: hasFile ? { ...flags, file: second } : flags };
  }
  if (first !== '' && !first.startsWith('-')) {
    const nearest = nearestName(first, commandNames);
    const hint = nearest ? `, did you mean ${nearest}?` : '';
    throw new ConfigError([`${first}: unknown command${hint}`]);
  }
  return { name: 'run', flags: parseFlags(argv) };
}

/** What `--help` prints. */
export const helpText = `Usage:
  coordinator [FLAGS]                    starts the coordinator
  coordinator validate [FILE] [FLAGS]    checks a configuration; exit code 0 or 1
  coordinator explain [FILE] [FLAGS]     prints the configuration in effect and where each value comes from

Flags:
  --config FILE      the configuration file (default config/coordinator/coordinator.yaml)
  --strict-config    unknown keys, parameters and COORDINATOR_ variables are problems
  -v, --v LEVEL      log level, 1 warnings to 5 trace
  --help, --version  print and end
${listFlags()}
Every key of the configuration can be set by environment, such as COORDINATOR_SERVER_LISTEN_ADDR.
docs/configuration.md has them all.
`;

function listFlags(): string {
  const others = flagNames.filter((name) => !['config', 'strict-config', 'v'].includes(name));
  return `  also: ${others.map((name) => `--${name}`).join(' ')}\n`;
}
