import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { ConfigError } from '@llm-d/config';
import { profileFileNames, reportProfile, type ProfileReport, type Support } from '@llm-d/render';
import { stringify } from 'yaml';

/** The words after the name of the program. */
export const profileUsage = 'profile add MODEL_DIRECTORY [--to DIRECTORY] [--name NAME]';

const USAGE = `profile: expected \`${profileUsage}\``;

/**
 * `profile add`: copies what rendering needs from a local model directory and says what is supported. Resolves to the
 * exit code: 1 when the model cannot be rendered here. Throws a ConfigError for wrong arguments.
 */
export async function profileCommand(
  argv: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const { source, target, name } = readArguments(argv);
  if (!existsSync(source)) throw new ConfigError([`profile: ${source} does not exist`]);
  if (existsSync(target) && (await readdir(target)).length > 0) {
    throw new ConfigError([`profile: ${target} exists and is not empty`]);
  }
  const copied = await copyFiles(source, target);
  await writeFile(
    join(target, 'profile.yaml'),
    `# Names that requests may use, and the model argument that the workers were started with.\n${stringify({ names: [name], hash: { model_id: name } })}`,
  );
  const report = await reportProfile({ directory: target });
  print(`${target}: ${copied.join(', ')}, profile.yaml`);
  for (const line of describe(report)) print(line);
  if (!report.text.isSupported) {
    print('Not usable in this process: serve the model with `mode: proxy`.');
    return 1;
  }
  print(`Serve it with: render-shim --profile ${target}`);
  return 0;
}

function readArguments(argv: readonly string[]): {
  readonly source: string;
  readonly target: string;
  readonly name: string;
} {
  const { values, positionals } = parse(argv);
  const [verb, directory, ...rest] = positionals;
  if (verb !== 'add' || directory === undefined || rest.length > 0) throw new ConfigError([USAGE]);
  const source = resolve(directory);
  const name = values.name ?? basename(source);
  return { source, name, target: resolve(values.to ?? join('profiles', basename(source))) };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      options: { to: { type: 'string' }, name: { type: 'string' } },
      allowPositionals: true,
    });
  } catch (cause) {
    throw new ConfigError([USAGE], { cause });
  }
}

/** Copies the files that are there; the names of those. */
async function copyFiles(source: string, target: string): Promise<string[]> {
  const present = profileFileNames.filter((name) => existsSync(join(source, name)));
  if (!present.includes('tokenizer.json')) {
    throw new ConfigError([`profile: ${source} has no tokenizer.json; serve it with mode proxy`]);
  }
  await mkdir(target, { recursive: true });
  for (const name of present) {
    // Model directories of the Hugging Face cache hold links.
    await cp(join(source, name), join(target, name), { recursive: true, dereference: true });
  }
  return present;
}

function describe({ text, chat, tools, images, details }: ProfileReport): string[] {
  const line = (what: string, support: Support, detail = ''): string =>
    `  ${what.padEnd(8)}${support.isSupported ? `yes${detail}` : `no: ${support.reason}`}`;
  const context = details === undefined ? '' : `, context of ${details.maxModelLen} tokens`;
  const format =
    details?.contentFormat === undefined ? '' : `, content format ${details.contentFormat}`;
  return [
    line('text', text, context),
    line('chat', chat, format),
    line('tools', tools),
    line('images', images),
    ...(images.isSupported && details !== undefined
      ? [`  hash    model_id ${details.rootName}; must be what the workers were started with`]
      : []),
  ];
}
