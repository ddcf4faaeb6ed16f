/** What we need of the global that TypeScript knows only together with those of browsers. */
declare const WebAssembly: {
  readonly Module: new (code: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

/** Loops over RGB pixels within a memory of their own; places are offsets in it. */
export interface PixelKernels {
  readonly memory: {
    readonly buffer: ArrayBuffer;
    /** Adds pages; `buffer` is another one then, and views of the old one are empty. */
    grow(pages: number): number;
  };
  /** Writes the patch of `side` pixels whose first row starts at `from`: for each channel its rows, twice. */
  readonly patch: (from: number, rowBytes: number, side: number, to: number) => void;
  /**
   * Writes the pixels from `to` to `end`, each the weighted sum of a window of others. `windows` holds for each the offset of
   * its window behind `from` and its length in pixels, `weights` as many weights scaled by `2 ** bits`; all are 32-bit
   * integers, and there is no window without pixels.
   */
  readonly filterRow: (
    from: number,
    to: number,
    end: number,
    windows: number,
    weights: number,
    stride: number,
    bits: number,
  ) => void;
  /** Writes the weighted sum of `rows` rows, at least one, that lie one behind the other. */
  readonly filterColumns: (
    from: number,
    rowBytes: number,
    rows: number,
    weights: number,
    bits: number,
    to: number,
  ) => void;
}

/** Memory in front of this is the kernels' own. */
export const FREE_FROM = 144;
/** What the kernels read and write behind what they are told, at most. */
export const MARGIN_BYTES = 48;
const PAGE_BYTES = 65_536;

/** `pixel-kernels.wat` in binary; a test compares the two. */
export const PIXEL_KERNELS =
  'AGFzbQEAAAABGwNgBH9/f38AYAd/f39/f39/AGAGf39/f39/AAMEAwABAgUDAQABBy4EBm1lbW9yeQIABXBhdGNoAAAJZmlsdGVyUm93AAENZmlsdGVyQ29sdW1ucwACCtUEA7gBAgd/A3sgAiACbCEEA0AgBf0ABAAhCyAF/QAEECEMIAX9AAQgIQ0gACEGIAIhByADIQkDQCAGIQggCSACaiEKA0AgCSAI/QAEACAL/Q4gCP0ABBAgDP0O/VAgCP0ABCAgDf0O/VD9CwQAIAhBMGohCCAJQRBqIQkgCSAKSQ0ACyAKIQkgBiABaiEGIAdBAWshByAHDQALIAkgAyAE/AoAACAJIARqIQMgBUEwaiEFIAVBkAFJDQALC6EBAgJ7A39BASAGQQFrdP0RIQcDQCAAIAMoAgBqIQkgAygCBCELIAQhCiAHIQgDQCAIIAn9XAIA/YkB/akBIAr9CQIA/bUB/a4BIQggCUEDaiEJIApBBGohCiALQQFrIQsgCw0ACyAIIAb9rAEhCCAIIAj9hQEhCCABIAggCP1m/VoCAAAgAUEDaiEBIANBCGohAyAEIAVqIQQgASACSQ0ACwv1AQIIewR/QQEgBEEBa3T9ESEGIAUgAWohDgNAIAYhByAGIQggBiEJIAYhCiAAIQ8gAyEQIAIhEQNAIBD9CQIAIQ0gD/0ABAAhCyAL/YkBIQwgByAM/akBIA39tQH9rgEhByAIIAz9qgEgDf21Af2uASEIIAv9igEhDCAJIAz9qQEgDf21Af2uASEJIAogDP2qASAN/bUB/a4BIQogDyABaiEPIBBBBGohECARQQFrIREgEQ0ACyAFIAcgBP2sASAIIAT9rAH9hQEgCSAE/awBIAogBP2sAf2FAf1m/QsEACAAQRBqIQAgBUEQaiEFIAUgDkkNAAsLC5cBAQBBAAuQAQADBgkMD4CAgICAgICAgICAgICAgIACBQgLDoCAgICAgICAgICAgICAgIABBAcKDQEEBwoNgICAgICAgICAgICAgICAgAADBgkMD4CAgICAgICAgICAgICAgIACBQgLDgIFCAsOgICAgICAgICAgICAgICAgAEEBwoNgICAgICAgICAgICAgICAgAADBgkMDw==';

const module = new WebAssembly.Module(Buffer.from(PIXEL_KERNELS, 'base64'));

/** The kernels with a page of memory. */
export function pixelKernels(): PixelKernels {
  // The source of the module says what it exports.
  return new WebAssembly.Instance(module).exports as PixelKernels;
}

/** Sees to it that a memory has so many bytes; views of it that were made before may be empty. */
export function reserveMemory({ memory }: PixelKernels, bytes: number): void {
  const missing = bytes - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / PAGE_BYTES));
}
