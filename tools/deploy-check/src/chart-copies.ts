import { readdirSync } from 'node:fs';
import { pathOf } from './deploy-files.ts';

const roles = ['encode', 'prefill', 'decode'];

/** Files that the umbrella chart holds a copy of, since a chart reads nothing outside of its folder. */
export const chartCopies = (): { from: string; to: string }[] =>
  [
    ['prometheus/rules.yaml', 'rules.yaml'],
    ['epp/epp.yaml', 'epp.yaml'],
    ...roles.map((role) => [`epp/three-pools/${role}.yaml`, `epp-${role}.yaml`]),
    ['compose/redis-queue.conf', 'redis-queue.conf'],
    ...readdirSync(pathOf('deploy/dashboards')).map((file) => [
      `dashboards/${file}`,
      `dashboards/${file}`,
    ]),
  ].map(([from, to]) => ({ from: `deploy/${from}`, to: `deploy/charts/stack/files/${to}` }));
