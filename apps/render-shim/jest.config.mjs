import preset from '../../jest.preset.mjs';

// Loading a tokenizer takes a second, on a busy machine several.
export default { ...preset, testTimeout: 30_000 };
