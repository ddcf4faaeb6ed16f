import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { json, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { everyAddressIsLocal, inNamespace, namespaceHelp } from './namespace.ts';

/** Runs a script of this folder in a namespace, usually one where every address is local: JSON goes in, JSON comes out. */
export async function runRig(
  script: string,
  input: unknown,
  setUp = everyAddressIsLocal,
): Promise<unknown> {
  const file = fileURLToPath(new URL(script, import.meta.url));
  const [program = '', ...args] = [
    ...inNamespace(setUp),
    ...[process.execPath, '--conditions=@llm-d/source', file],
  ];
  // What Jest needs of Node is not for the script.
  const env = { ...process.env, NODE_OPTIONS: '' };
  const rig = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
  rig.stdin.on('error', () => undefined);
  rig.stdin.end(JSON.stringify(input));
  const [output, problems] = await Promise.all([
    json(rig.stdout).catch(() => undefined),
    text(rig.stderr),
    once(rig, 'close'),
  ]);
  if (output === undefined) throw new Error(`${script} did not run; ${namespaceHelp}\n${problems}`);
  return output;
}
