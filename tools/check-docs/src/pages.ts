import { join } from 'node:path';

const root = join(import.meta.dirname, '../../..');

/** The page that shows what each leg sends. */
export const communicationPage = join(root, 'docs/communication.md');

/** Golden files of the legs, with the requests and answers that they were made with. */
export const goldenFiles = join(root, 'libs/steps/src/testdata');
