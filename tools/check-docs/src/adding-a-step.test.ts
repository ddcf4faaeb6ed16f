import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { addingAStepPage, root } from './pages.ts';
import { refreshFiles } from './refresh-files.ts';

const page = readFileSync(addingAStepPage, 'utf8');

describe('docs/adding-a-step.md', () => {
  it('shows the files of the example (after a change: node --conditions=@llm-d/source tools/check-docs/src/main.ts)', () => {
    expect(page).toBe(refreshFiles(page, root));
    expect(page).toContain('<!-- file: examples/guardrail-step/src/guardrail.ts -->\n\n```ts\n');
  });
});

describe('refreshFiles', () => {
  const path = 'examples/guardrail-step/src/index.ts';
  const text = readFileSync(join(root, path), 'utf8');
  const fresh = `a\n\n<!-- file: ${path} -->\n\n\`\`\`ts\n${text}\`\`\`\n\nb\n`;

  it('writes a file below its marker, over what is old, and leaves the rest', () => {
    expect(refreshFiles(`a\n\n<!-- file: ${path} -->\n\nb\n`, root)).toBe(fresh);
    expect(refreshFiles(fresh.replace('steps', 'old'), root)).toBe(fresh);
  });

  it('fails at a marker whose file is not there', () => {
    expect(() => refreshFiles('<!-- file: none.ts -->', root)).toThrow('ENOENT');
  });
});
