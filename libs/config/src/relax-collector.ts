import { setFlagsFromString } from 'node:v8';

/** Makes collections rarer in a process that carries media or large bodies; to be called before the first of them. */
export function relaxCollector(): void {
  // V8 starts a full collection whenever 64 MB of buffers have come and gone, however small its own heap is: with images of
  // a megabyte that is every few requests, and half of their CPU. With this flag buffers count like objects, so that a
  // collection waits for the heap as a whole to grow (`npm run -s bench -- cascade --only image`, `-- media`, `-- render`).
  setFlagsFromString('--external-memory-accounted-in-global-limit');
  // Left alone it waits for little more than what is alive, 30 MB of code for the most part; three times as much is still
  // small and halves the number of collections.
  setFlagsFromString('--heap-growing-percent=200');
}
