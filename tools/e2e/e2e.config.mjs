import preset from '../../jest.preset.mjs';

// Not named jest.config: these tests start built processes and run as the target `e2e`, after the build.
export default { ...preset, testMatch: ['<rootDir>/src/**/*.e2e.ts'], testTimeout: 60_000 };
