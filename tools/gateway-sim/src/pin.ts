import { type IncomingHttpHeaders } from 'node:http';
import { firstValue } from './headers.ts';

/** Names the reserved pod as `host:port`. */
export const reservedHeader = 'x-llm-d-reserved-host-port';

/** Newest name first; older routers know the second alone. */
const pinHeaders = ['x-llm-d-pin-host-port', 'x-prefill-pin-host-port'];

/** True when a `Prefer` header asks which pod would be chosen, without sending the call there. */
export const isReservation = (prefer: string | undefined): boolean =>
  (prefer ?? '')
    .split(',')
    .some((part) => part.split(';')[0]?.trim().toLowerCase() === 'reserve-endpoint');

/** The `host:port` that a prefill call must reach; undefined when any pod will do. */
export const pinnedTo = (headers: IncomingHttpHeaders): string | undefined =>
  pinHeaders.map((name) => firstValue(headers[name])).find((value) => value !== undefined);
