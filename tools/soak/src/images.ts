import sharp from 'sharp';

/** A small picture as clients send it. */
export interface TestImage {
  readonly uri: string;
  readonly width: number;
  readonly height: number;
}

/** Draws a picture that no other number gives, alternately as PNG and as JPEG. */
export async function drawImage(number: number): Promise<TestImage> {
  const [width, height] = [64 + 32 * (number % 5), 48 + 32 * (number % 3)];
  const isPng = number % 2 === 0;
  const background = { r: number % 256, g: (number * 7) % 256, b: (number * 31) % 256 };
  const picture = sharp({ create: { width, height, channels: 3, background } });
  const bytes = await (isPng ? picture.png() : picture.jpeg()).toBuffer();
  const type = isPng ? 'image/png' : 'image/jpeg';
  return { uri: `data:${type};base64,${bytes.toString('base64')}`, width, height };
}
