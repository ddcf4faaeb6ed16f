/** What we need of the global that TypeScript knows only together with those of browsers. */
declare const WebAssembly: {
  readonly Module: new (code: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

/** Moves pixels of an RGB image into patches, within a memory of its own; places are offsets in it. */
export interface PatchKernel {
  readonly memory: {
    readonly buffer: ArrayBuffer;
    /** Adds pages of {@link PAGE_BYTES}; `buffer` is another one then, and views of the old one are empty. */
    grow(pages: number): number;
  };
  /**
   * Writes the patch of `side` pixels whose first row starts at `from`: for each channel its rows, twice. Reads and
   * writes up to {@link MARGIN_BYTES} too far.
   */
  readonly patch: (from: number, rowBytes: number, side: number, to: number) => void;
}

export const PAGE_BYTES = 65_536;
export const MARGIN_BYTES = 48;
/** Memory in front of this is the kernel's own. */
export const FREE_FROM = 144;

/** `patch-kernel.wat` in binary; a test compares the two. */
export const PATCH_KERNEL =
  'AGFzbQEAAAABCAFgBH9/f38AAwIBAAUDAQABBxICBm1lbW9yeQIABXBhdGNoAAAKuwEBuAECB38DeyACIAJsIQQDQCAF/QAEACELIAX9AAQQIQwgBf0ABCAhDSAAIQYgAiEHIAMhCQNAIAYhCCAJIAJqIQoDQCAJIAj9AAQAIAv9DiAI/QAEECAM/Q79UCAI/QAEICAN/Q79UP0LBAAgCEEwaiEIIAlBEGohCSAJIApJDQALIAohCSAGIAFqIQYgB0EBayEHIAcNAAsgCSADIAT8CgAAIAkgBGohAyAFQTBqIQUgBUGQAUkNAAsLC5cBAQBBAAuQAQADBgkMD4CAgICAgICAgICAgICAgIACBQgLDoCAgICAgICAgICAgICAgIABBAcKDQEEBwoNgICAgICAgICAgICAgICAgAADBgkMD4CAgICAgICAgICAgICAgIACBQgLDgIFCAsOgICAgICAgICAgICAgICAgAEEBwoNgICAgICAgICAgICAgICAgAADBgkMDw==';

/** A kernel with a page of memory. */
export function patchKernel(): PatchKernel {
  const module = new WebAssembly.Module(Buffer.from(PATCH_KERNEL, 'base64'));
  // The source of the module says what it exports.
  return new WebAssembly.Instance(module).exports as PatchKernel;
}
