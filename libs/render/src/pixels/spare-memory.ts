/** Memory that is kept for the next tensors. */
const MAX_BYTES = 64 << 20;
/** A buffer is given away for what fills at least this part of it. */
const MIN_USE = 0.5;

/**
 * Buffers of tensors that were sent. New ones of megabytes for each image would have the garbage collector go through the
 * heap every few images.
 */
export class SpareMemory {
  private readonly buffers: ArrayBuffer[] = [];
  private bytes = 0;

  /** A buffer with room for so many bytes; undefined when there is none of about that size. */
  take(byteLength: number): ArrayBuffer | undefined {
    const at = this.buffers.findLastIndex(
      (buffer) => buffer.byteLength >= byteLength && buffer.byteLength * MIN_USE <= byteLength,
    );
    if (at === -1) return undefined;
    const [buffer] = this.buffers.splice(at, 1);
    this.bytes -= buffer?.byteLength ?? 0;
    return buffer;
  }

  /** Keeps a buffer that nobody reads any more; when there are too many, the oldest goes. */
  put(buffer: ArrayBuffer): void {
    if (this.buffers.includes(buffer)) return;
    this.buffers.push(buffer);
    this.bytes += buffer.byteLength;
    while (this.bytes > MAX_BYTES) this.bytes -= this.buffers.shift()?.byteLength ?? 0;
  }
}
