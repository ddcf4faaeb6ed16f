import { relaxCollector } from '@llm-d/config';
import { runCoordinator } from './run-coordinator.ts';

relaxCollector();

process.exit(
  await runCoordinator({
    argv: process.argv.slice(2),
    environment: process.env,
    output: process.stdout,
    errors: process.stderr,
  }),
);
