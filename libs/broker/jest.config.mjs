import preset from '../../jest.preset.mjs';

// Many of these tests start servers and wait for what a busy machine does late.
export default { ...preset, testTimeout: 20_000 };
