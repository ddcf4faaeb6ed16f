/** What the blocks of a GIF file say about its first frame. */
export interface GifFrame {
  /** True when the file holds the pixel data of the frame to its end. */
  readonly isWhole: boolean;
  /** True when the frame fills the screen of the file exactly. */
  readonly fillsScreen: boolean;
  readonly hasTransparency: boolean;
}

const EXTENSION = 0x21;
const GRAPHIC_CONTROL = 0xf9;
const IMAGE = 0x2c;
const SCREEN_BYTES = 13;

/** Walks the blocks up to the end of the first frame, later frames are never read; undefined when there is none. */
export function firstGifFrame(file: Buffer): GifFrame | undefined {
  const screenFlags = file[10];
  if (screenFlags === undefined) return undefined;
  let at = SCREEN_BYTES + colourTableBytes(screenFlags);
  let hasTransparency = false;
  for (;;) {
    switch (file[at]) {
      case EXTENSION:
        if (file[at + 1] === GRAPHIC_CONTROL) hasTransparency = ((file[at + 3] ?? 0) & 1) === 1;
        at = afterSubBlocks(file, at + 2);
        break;
      case IMAGE: {
        const flags = file[at + 9];
        if (flags === undefined) return undefined;
        return {
          isWhole: afterSubBlocks(file, at + 11 + colourTableBytes(flags)) <= file.length,
          fillsScreen:
            file.readUInt32LE(at + 1) === 0 && file.readUInt32LE(at + 5) === file.readUInt32LE(6),
          hasTransparency,
        };
      }
      default:
        return undefined;
    }
  }
}

function colourTableBytes(flags: number): number {
  return (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1);
}

/** Offset behind a chain of sub-blocks; beyond the end of the file when the chain is cut. */
function afterSubBlocks(file: Buffer, start: number): number {
  let at = start;
  for (;;) {
    const size = file[at];
    if (size === undefined) return file.length + 1;
    at += size + 1;
    if (size === 0) return at;
  }
}
