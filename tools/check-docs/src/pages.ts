import { join } from 'node:path';

/** The root of the repository. */
export const root = join(import.meta.dirname, '../../..');

/** The page that shows what each leg sends. */
export const communicationPage = join(root, 'docs/communication.md');

/** The page that walks through the making of a step. */
export const addingAStepPage = join(root, 'docs/adding-a-step.md');

/** The page that lists every key of the configuration and every parameter of a step. */
export const configurationPage = join(root, 'docs/configuration.md');

/** The page with a row for every code of an error. */
export const errorsPage = join(root, 'docs/errors.md');

/** Golden files of the legs, with the requests and answers that they were made with. */
export const goldenFiles = join(root, 'libs/steps/src/testdata');
