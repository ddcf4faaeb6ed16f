import { parseArgs } from 'node:util';
import { crowdedUploads } from './crowded-uploads.ts';
import { inlineImages } from './inline-images.ts';
import { slowReaders } from './slow-readers.ts';

const megabyte = 1024 * 1024;

// The long form of memory.e2e.ts, which prints the figures: `node --conditions=@llm-d/source tools/e2e/src/memory.ts`,
// after a build of the coordinator.
const { values } = parseArgs({
  options: {
    readers: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '30' },
    uploads: { type: 'string', default: '64' },
    megabytes: { type: 'string', default: '64' },
    held: { type: 'string', default: '256' },
    images: { type: 'string', default: '20' },
  },
});

const readers = Number(values.readers);
if (readers > 0) {
  const figures = await slowReaders({
    readers,
    answerBytes: 100 * megabyte,
    seconds: Number(values.seconds),
  });
  console.log('slow readers', figures);
}
const uploads = Number(values.uploads);
if (uploads > 0) {
  const figures = await crowdedUploads({
    uploads,
    bodyMegabytes: Number(values.megabytes),
    heldMegabytes: Number(values.held),
    comesBack: true,
  });
  console.log('uploads', figures);
}

const requests = Number(values.images);
if (requests > 0) console.log('images', await inlineImages({ requests, bodyMegabytes: 40 }));
