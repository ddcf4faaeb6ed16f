import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import sharp from 'sharp';
import { imageOfBytes } from './media-images.ts';

// An origin in a process of its own, so that its CPU is not that of the fetcher. Tells its port on standard output.

const image = imageOfBytes(Number(process.argv[2] ?? 0));
const noise = { type: 'gaussian', mean: 128, sigma: 30 } as const;
const photo = await sharp({
  create: { width: 4032, height: 3024, channels: 3, background: '#000', noise },
})
  .blur(2)
  .jpeg()
  .toBuffer();

const server = createServer((request, response) => {
  // Each photo is another one, with its name behind the end of the picture.
  const { url = '' } = request;
  const body = url.startsWith('/photo') ? Buffer.concat([photo, Buffer.from(url)]) : image;
  response.writeHead(200, {
    'content-type': 'image/jpeg',
    'content-length': body.length,
    'cache-control': 'max-age=3600',
  });
  response.end(body);
});
server.listen(0, '127.0.0.1', () => {
  console.log((server.address() as AddressInfo).port);
});
