import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, it } from '@jest/globals';
import loadWabt from 'wabt';

import { PIXEL_KERNELS } from './pixel-kernels.ts';

const here = (file: string): string => join(import.meta.dirname, file);

it('the binary is what its source says', async () => {
  const wabt = await loadWabt();
  const source = readFileSync(here('pixel-kernels.wat'), 'utf8');
  const module = wabt.parseWat('pixel-kernels.wat', source, { simd: true, bulk_memory: true });
  module.validate();
  const binary = Buffer.from(module.toBinary({}).buffer).toString('base64');
  module.destroy();
  if (process.env['UPDATE_GOLDEN'] === '1') {
    const script = readFileSync(here('pixel-kernels.ts'), 'utf8');
    writeFileSync(
      here('pixel-kernels.ts'),
      script.replace(/PIXEL_KERNELS =\n {2}'[^']*'/, `PIXEL_KERNELS =\n  '${binary}'`),
    );
    return;
  }
  expect(PIXEL_KERNELS).toBe(binary);
});
