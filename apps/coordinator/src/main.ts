import { runCoordinator } from './run-coordinator.ts';

process.exit(
  await runCoordinator({
    argv: process.argv.slice(2),
    environment: process.env,
    errors: process.stderr,
  }),
);
