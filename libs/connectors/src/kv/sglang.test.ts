import { describe, expect, it } from '@jest/globals';
import { sglang } from './sglang.ts';

describe('kv-sglang', () => {
  it('sends both pods to one room and removes the ranks of a client', () => {
    const edits = sglang.bootstrap('10.0.3.7:8000', 9100);
    expect(edits).toEqual({
      bootstrap_host: '10.0.3.7',
      bootstrap_port: 9100,
      bootstrap_room: expect.any(Number),
      routed_dp_rank: undefined,
      data_parallel_rank: undefined,
      disagg_prefill_dp_rank: undefined,
    });
    expect(Object.keys(edits)).toHaveLength(6);
  });

  it('makes a new room every time, a number that doubles hold exactly', () => {
    const rooms = Array.from({ length: 1000 }, () =>
      Number(sglang.bootstrap('h:1', 1)['bootstrap_room']),
    );
    expect(new Set(rooms).size).toBe(1000);
    expect(rooms.every((room) => Number.isSafeInteger(room) && room >= 0)).toBe(true);
    // A room of 31 bits would meet its like among a few ten thousand open requests.
    expect(Math.max(...rooms)).toBeGreaterThan(2 ** 48);
  });

  it.each([
    { endpoint: '10.0.3.7:8000', host: '10.0.3.7' },
    { endpoint: 'prefill-0.pool.svc:80', host: 'prefill-0.pool.svc' },
    { endpoint: '[fd00::7]:8000', host: 'fd00::7' },
  ])('finds the host of $endpoint', ({ endpoint, host }) => {
    expect(sglang.bootstrap(endpoint, 8998)['bootstrap_host']).toBe(host);
  });

  it.each([
    ...['', '10.0.3.7', '10.0.3.7:8000:1', ':8000', '10.0.3.7:', '10.0.3.7:0', '10.0.3.7:65536'],
    ...['10.0.3.7:8o', 'fd00::7:8000', '[fd00::7]', '[10.0.3.7]:8000', '[x]:1', 'http://h:1'],
    ...['u@h:1', 'h:1/', 'h h:1', 'h:1\n', '10.0.3.7:8000, 10.0.3.8:8000'],
  ])('refuses the endpoint %j', (endpoint) => {
    expect(() => sglang.bootstrap(endpoint, 8998)).toThrow(
      'the reserved endpoint is not host:port',
    );
  });

  it('lets no client header choose a rank', () => {
    expect(sglang.conflictingHeaders).toEqual(['x-data-parallel-rank']);
  });
});
