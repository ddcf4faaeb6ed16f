/** What a request went through, as metrics and traces name it (coordinator.md 8.1). */
export type ExecutionPath = 'decode-only' | 'prefill-decode' | 'encode-prefill-decode';

/** The path by the steps that were started, whether they went well or not; undefined when none of them decodes. */
export function executionPath(started: ReadonlySet<string>): ExecutionPath | undefined {
  const hasBoth = started.has('prefill-decode');
  if (!hasBoth && !started.has('decode') && !started.has('conditional-decode')) return undefined;
  if (!hasBoth && !started.has('prefill')) return 'decode-only';
  return started.has('encode') ? 'encode-prefill-decode' : 'prefill-decode';
}
