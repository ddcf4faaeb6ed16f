import { readdirSync } from 'node:fs';
import { pathOf } from './deploy-files.ts';

/** Files that the umbrella chart holds a copy of, since a chart reads nothing outside of its folder. */
export const chartCopies = (): { from: string; to: string }[] =>
  [
    'prometheus/rules.yaml',
    'epp/epp.yaml',
    'compose/redis-queue.conf',
    ...readdirSync(pathOf('deploy/dashboards')).map((file) => `dashboards/${file}`),
  ].map((file) => ({
    from: `deploy/${file}`,
    to: `deploy/charts/stack/files/${file.replace(/^(prometheus|epp|compose)\//, '')}`,
  }));
