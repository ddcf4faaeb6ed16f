import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, it } from '@jest/globals';
import loadWabt from 'wabt';

import { PATCH_KERNEL } from './patch-kernel.ts';

const here = (file: string): string => join(import.meta.dirname, file);

it('the binary is what its source says', async () => {
  const wabt = await loadWabt();
  const source = readFileSync(here('patch-kernel.wat'), 'utf8');
  const module = wabt.parseWat('patch-kernel.wat', source, { simd: true, bulk_memory: true });
  module.validate();
  const binary = Buffer.from(module.toBinary({}).buffer).toString('base64');
  module.destroy();
  if (process.env['UPDATE_GOLDEN'] === '1') {
    const script = readFileSync(here('patch-kernel.ts'), 'utf8');
    writeFileSync(
      here('patch-kernel.ts'),
      script.replace(/PATCH_KERNEL =\n {2}'[^']*'/, `PATCH_KERNEL =\n  '${binary}'`),
    );
    return;
  }
  expect(PATCH_KERNEL).toBe(binary);
});
