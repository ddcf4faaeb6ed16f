import { fileURLToPath } from 'node:url';

const inSetup = (file) => fileURLToPath(new URL(`./tools/setup/src/${file}`, import.meta.url));

export default {
  // `npm test` sets the variable to count the tests of all projects.
  ...(process.env.TEST_RESULTS_DIR && {
    reporters: ['default', inSetup('count-reporter.mjs')],
    setupFilesAfterEnv: [inSetup('second-try.mjs')],
  }),
  testEnvironment: 'node',
  // Against tests that hang; those that promise a time measure it themselves. Jest's 5 s are less than a busy machine may stall.
  testTimeout: 20_000,
  testMatch: ['<rootDir>/src/**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  testEnvironmentOptions: { customExportConditions: ['@llm-d/source', 'node', 'node-addons'] },
  transform: {
    '\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2023',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
      },
    ],
  },
};
