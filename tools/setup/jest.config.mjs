import preset from '../../jest.preset.mjs';

// This package runs before anything is installed, so it is plain JavaScript, its tests included.
// They start dozens of processes, which takes its time on a busy machine.
export default {
  ...preset,
  testMatch: ['<rootDir>/src/**/*.test.mjs'],
  testTimeout: 60_000,
};
