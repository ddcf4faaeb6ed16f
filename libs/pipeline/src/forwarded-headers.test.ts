import { describe, expect, it } from '@jest/globals';
import { ForwardedHeaders, headerPolicy } from './forwarded-headers.ts';

type PolicyOptions = Parameters<typeof headerPolicy>[0];

const read = (headers: readonly string[], options?: PolicyOptions): string[] =>
  ForwardedHeaders.from(headers, headerPolicy(options)).forReading([]);
const relay = (headers: readonly string[], options?: PolicyOptions): string[] =>
  ForwardedHeaders.from(headers, headerPolicy(options)).forRelay([]);

/** Ends here, is recomputed, or belongs to the coordinator: coordinator.md 2.8. */
const never = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
  ...['content-length', 'content-type', 'host', 'content-encoding', 'expect'],
  ...['x-request-id', 'x-llm-d-revision-decision-id'],
];

/** Chooses a pod or plays a phase: design.md decision 4. */
const control = [
  ...['epp-profile', 'x-llm-d-epp-profile', 'prefer'],
  ...['x-prefiller-host-port', 'x-encoder-hosts-ports', 'x-data-parallel-host-port'],
  ...['x-kv-cache-source-host-port', 'x-llm-d-pin-host-port', 'x-prefill-pin-host-port'],
  ...['x-gateway-destination-endpoint', 'x-gateway-destination-endpoint-subset'],
];

const free = [
  ...['authorization', 'cookie', 'accept', 'user-agent', 'x-forwarded-for', 'x-forwarded-proto'],
  ...['traceparent', 'tracestate', 'baggage', 'x-gateway-inference-objective'],
  ...['x-gateway-inference-fairness-id', 'x-custom'],
];

describe('headers of a client', () => {
  it.each(never)('never pass: %s', (name) => {
    expect(relay([name, 'v'], { keep: [name] })).toEqual([]);
  });

  it.each(control)('do not pass: %s, in any case of its letters', (name) => {
    expect(relay([name, 'v', name.toUpperCase(), 'v'])).toEqual([]);
  });

  it.each(control)('may be allowed back one by one: %s', (name) => {
    expect(relay([name, 'v', 'Prefer', 'x'], { keep: [name.toUpperCase()] })).toContain(name);
    expect(relay([name, 'v'], { keep: ['x-other'] })).toEqual([]);
  });

  it.each(free)('pass: %s', (name) => {
    expect(read([name, 'v'])).toEqual([name, 'v']);
  });

  it('pass under lower-case names with all values in order, the values as they are', () => {
    expect(read(['X-A', '1', 'x-b', 'Ä ,', 'x-a', '', 'X-A', '1'])).toEqual([
      ...['x-a', '1', 'x-b', 'Ä ,', 'x-a', '', 'x-a', '1'],
    ]);
  });

  it('describe the body where it goes on as it came', () => {
    const about = ['content-type', 'text/plain', 'content-encoding', 'gzip'];
    const framing = ['content-length', '7', 'transfer-encoding', 'chunked', 'host', 'h'];
    expect(relay([...about, ...framing], { hasClientBody: true })).toEqual(about);
    expect(relay(about, { hasClientBody: true, strip: ['content-encoding'] })).toEqual(
      about.slice(0, 2),
    );
  });

  it('are taken out by further names of the deployment', () => {
    expect(relay(['Cookie', 'c', 'x-b', '1'], { strip: ['COOKIE'] })).toEqual(['x-b', '1']);
  });

  it('are not given for names that earlier phases supply, even where they are kept', () => {
    const options = { reserved: ['X-Llm-D-Disagg-Revision'], keep: ['x-llm-d-disagg-revision'] };
    expect(relay(['x-llm-d-disagg-revision', 'mine'], options)).toEqual([]);
  });

  it.each([
    { connection: ['Connection', 'X-Hop, close'] },
    { connection: ['connection', 'keep-alive , x-hop'] },
    { connection: ['connection', 'close', 'Connection', 'X-HOP'] },
  ])('end here when $connection names them', ({ connection }) => {
    expect(relay(['x-hop', '1', ...connection, 'x-b', '2'])).toEqual(['x-b', '2']);
  });

  it('keep their `accept-encoding` only where the answer goes back as it is', () => {
    const headers = ['accept-encoding', 'gzip', 'accept', '*/*'];
    expect(read(headers)).toEqual(['accept', '*/*']);
    expect(relay(headers)).toEqual(headers);
  });

  it('come before those of the leg', () => {
    const headers = ForwardedHeaders.from(['x-a', '1'], headerPolicy());
    expect(headers.forReading(['x-b', '2'])).toEqual(['x-a', '1', 'x-b', '2']);
    expect(headers.forRelay(['x-b', '2'])).toEqual(['x-a', '1', 'x-b', '2']);
  });

  it('may be none', () => {
    expect(read([])).toEqual([]);
  });
});

describe('headers without some names', () => {
  const raw = ['X-A', '1', 'x-b', 'x-a', 'X-A', '2', 'Accept-Encoding', 'gzip'];
  const headers = ForwardedHeaders.from(raw, headerPolicy()).without(['x-a']);

  it('have none of their values, and all others', () => {
    expect(headers.forRelay([])).toEqual(['x-b', 'x-a', 'accept-encoding', 'gzip']);
    expect(headers.forReading(['own', '1'])).toEqual(['x-b', 'x-a', 'own', '1']);
  });
});
