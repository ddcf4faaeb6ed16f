import { randomUUID } from 'node:crypto';
import { type IncomingMessage } from 'node:http';
import { requestIdHeader } from '@llm-d/gateway';

const validRequestId = /^[a-zA-Z0-9-]{1,128}$/;

/**
 * The client's id when it is 1 to 128 letters, digits or dashes, else a random UUID (coordinator.md
 * 2.4). `onReplaced` hears the length of a refused id and never its value, which may be hostile.
 */
export function chooseRequestId(
  request: IncomingMessage,
  onReplaced: (length: number) => void,
): string {
  const given = request.headers[requestIdHeader];
  if (given === undefined || given === '') return randomUUID();
  const id = String(given);
  if (validRequestId.test(id)) return id;
  onReplaced(id.length);
  return randomUUID();
}
