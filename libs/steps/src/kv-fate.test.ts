import { type Api, TransportError } from '@llm-d/gateway';
import {
  ClientGoneError,
  InternalError,
  ResponseStartedError,
  UpstreamError,
  UpstreamTransportError,
} from '@llm-d/pipeline';
import { describe, expect, it } from '@jest/globals';
import { fateAfter, type KvFate } from './kv-fate.ts';

// A worker's error is JSON and passed on, a gateway's is plain text and is not.
const worker = (status: number): Error => new ResponseStartedError('decode', status);
const gateway = (status: number): Error => new UpstreamError('decode', status);

interface Row {
  readonly name: string;
  readonly error: unknown;
  readonly api?: Api;
  readonly fate: KvFate;
}

const rows: readonly Row[] = [
  { name: 'a pod’s 400 on chat', error: worker(400), api: 'chat', fate: 'freed' },
  { name: 'a pod’s 400 on completions', error: worker(400), api: 'completions', fate: 'freed' },
  { name: 'a pod’s 400 on responses', error: worker(400), api: 'responses', fate: 'freed' },
  { name: 'a pod’s 400 on generate', error: worker(400), api: 'generate', fate: 'returned' },
  { name: 'a gateway’s 400', error: gateway(400), fate: 'left' },
  { name: 'a gateway’s 400 on generate', error: gateway(400), api: 'generate', fate: 'left' },
  { name: 'a gateway’s 403', error: gateway(403), fate: 'left' },
  { name: 'a pod’s 404, unknown model', error: worker(404), fate: 'left' },
  { name: 'a pod’s 413', error: worker(413), fate: 'left' },
  { name: 'a gateway’s 429, saturated or no pod', error: gateway(429), fate: 'left' },
  { name: 'a pod’s 429', error: worker(429), fate: 'left' },
  { name: 'a gateway’s 503', error: gateway(503), fate: 'left' },
  { name: 'a pod’s 503', error: worker(503), fate: 'left' },
  { name: 'a pod’s 500, a load that failed', error: worker(500), fate: 'taken' },
  { name: 'a gateway’s 500, no endpoint picker', error: gateway(500), fate: 'left' },
  { name: 'a gateway’s 502', error: gateway(502), fate: 'taken' },
  { name: 'a gateway’s 504', error: gateway(504), fate: 'taken' },
  { name: 'an answer that broke off', error: worker(0), fate: 'taken' },
  {
    name: 'a connection that was cut before the answer',
    error: new UpstreamTransportError('decode', new TransportError('reset')),
    fate: 'taken',
  },
  { name: 'no answer in time', error: new TransportError('timeout'), fate: 'taken' },
  { name: 'a client that left', error: new ClientGoneError(), fate: 'taken' },
  { name: 'a fault of ours', error: new InternalError('?'), fate: 'taken' },
];

describe('a set that was sent', () => {
  it.each(rows)('is $fate after $name', ({ error, api = 'chat', fate }) => {
    expect(fateAfter(error, api)).toBe(fate);
  });
});
