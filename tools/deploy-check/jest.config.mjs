import preset from '../../jest.preset.mjs';

// Programs are started, and on a machine with much to do that takes its time.
export default { ...preset, testTimeout: 30_000 };
