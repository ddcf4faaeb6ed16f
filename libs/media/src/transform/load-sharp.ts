import type { Sharp, SharpOptions } from 'sharp';

/** Sharp, set up for pictures of strangers. */
export interface ImageLibrary {
  /** A type beyond the usual four opens its loader, for good. */
  open(bytes: Buffer, type: string, options: SharpOptions): Sharp;
  /** Versions that decide which bytes come out. */
  readonly versions: Readonly<Record<'sharp' | 'vips', string>>;
}

/** Loaders of what is decoded by default; no other runs, least of all that of SVG. */
const loaders = ['Jpeg', 'Png', 'Webp', 'Nsgif'];
/** Loaders of types that are decoded where a configuration accepts them. */
const moreLoaders: Readonly<Record<string, string>> = {
  'image/avif': 'Heif',
  'image/tiff': 'Tiff',
};

const loaderNames = (formats: readonly string[]): string[] =>
  formats.map((format) => `VipsForeignLoad${format}Buffer`);

let library: Promise<ImageLibrary> | undefined;

/** Loads sharp on first use: whoever transforms nothing needs no native code. */
export function loadSharp(): Promise<ImageLibrary> {
  library ??= load();
  return library;
}

async function load(): Promise<ImageLibrary> {
  const { default: sharp } = await import('sharp');
  sharp.cache(false);
  // Parallel work comes from several images, each on one thread of the pool.
  sharp.concurrency(1);
  sharp.block({ operation: ['VipsForeignLoad'] });
  sharp.unblock({ operation: loaderNames(loaders) });
  return {
    open: (bytes, type, options) => {
      const format = moreLoaders[type];
      if (format !== undefined) sharp.unblock({ operation: loaderNames([format]) });
      return sharp(bytes, options);
    },
    versions: { sharp: sharp.versions.sharp ?? '', vips: sharp.versions.vips },
  };
}
