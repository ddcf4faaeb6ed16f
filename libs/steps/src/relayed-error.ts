import { type RelayedError } from '@llm-d/pipeline';
import { z } from 'zod';

/** Statuses of an engine that blame the request. */
const clientFaults = new Set([400, 404, 413, 422]);

/** Longest text of an engine that a client gets. */
const maxRelayedBytes = 2048;

const engineError = z.object({
  error: z.object({ message: z.string(), type: z.string(), param: z.string().nullish() }),
});

/** What `server.upstream_errors: relay` lets through of an error answer: vLLM's error object, cleaned and cut. */
export function relayedError(status: number, body: Buffer): RelayedError | undefined {
  if (!clientFaults.has(status)) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
  const result = engineError.safeParse(parsed);
  if (!result.success) return undefined;
  const { message, type, param } = result.data.error;
  return { message: clean(message), type: clean(type), param: param ? clean(param) : null };
}

function clean(text: string): string {
  const bytes = Buffer.from(text.replaceAll(/\p{Cc}/gu, ' '));
  let end = Math.min(bytes.length, maxRelayedBytes);
  // A character that would be cut is left out whole.
  while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}
