import sharp from 'sharp';
import { prose } from './bodies.ts';

/** What a mix of requests is made of. */
export interface MixOptions {
  readonly model: string;
  /** Shares of requests, 0 to 1. */
  readonly images: number;
  readonly cancels: number;
  readonly maxTokens: number;
  /** The same seed, the same requests. */
  readonly seed: number;
}

/** One request of the mix. */
export interface MixedRequest {
  readonly body: Buffer;
  /** Chunks after which its client leaves. */
  readonly leavesAfter: number | undefined;
}

const prefixes = 50;
const prefixBytes = 1_024;
const pictures = 8;
const pictureSide = 256;

/**
 * Streamed chat requests as those of applications: few prefixes are asked often and many seldom (Zipf), each with a
 * question of its own; some have an image, and some clients leave.
 */
export async function promptMix(options: MixOptions): Promise<() => MixedRequest> {
  const random = seededRandom(options.seed);
  const uris = await Promise.all(Array.from({ length: pictures }, (_, index) => picture(index)));
  const weights = Array.from({ length: prefixes }, (_, index) => 1 / (index + 1));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const prefix = (): number => {
    let left = random() * total;
    const index = weights.findIndex((weight) => (left -= weight) < 0);
    return index < 0 ? prefixes - 1 : index;
  };
  let made = 0;
  return () => {
    const text = `Application ${prefix()}. ${prose(prefixBytes)} Question ${made++}: why?`;
    const uri = uris[Math.floor(random() * pictures)];
    const content =
      random() < options.images
        ? [
            { type: 'text', text },
            { type: 'image_url', image_url: { url: uri } },
          ]
        : text;
    const { model, maxTokens } = options;
    const messages = [{ role: 'user', content }];
    return {
      body: Buffer.from(JSON.stringify({ model, stream: true, max_tokens: maxTokens, messages })),
      leavesAfter: random() < options.cancels ? 1 + Math.floor(random() * 5) : undefined,
    };
  };
}

async function picture(index: number): Promise<string> {
  const background = { r: index * 30, g: 120, b: 200 - index * 20 };
  const png = await sharp({
    create: { width: pictureSide, height: pictureSide, channels: 3, background },
  })
    .png()
    .toBuffer();
  return `data:image/png;base64,${png.toString('base64')}`;
}

/** Mulberry32. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
