import { benchAsync } from './bench-async.ts';
import { benchCascade } from './bench-cascade.ts';
import { benchJson } from './bench-json.ts';
import { benchLoad } from './bench-load.ts';
import { benchMedia } from './bench-media.ts';
import { benchRender } from './bench-render.ts';
import { benchScale } from './bench-scale.ts';
import { benchWaiters } from './bench-waiters.ts';

const benches: Readonly<Record<string, (args: string[]) => Promise<void> | void>> = {
  json: benchJson,
  cascade: benchCascade,
  media: benchMedia,
  render: benchRender,
  async: benchAsync,
  waiters: benchWaiters,
  load: benchLoad,
  scale: benchScale,
};

const [name = '', ...args] = process.argv.slice(2);
const bench = benches[name];
if (bench) await bench(args);
else {
  console.error(`expected one of ${Object.keys(benches).join(', ')}, got ${name || 'nothing'}`);
  process.exitCode = 2;
}
