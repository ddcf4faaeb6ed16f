import { describe, expect, it, jest } from '@jest/globals';
import { Admission, type AdmissionLimits, Ticket } from './admission.ts';
import { type RequestError } from './request-error.ts';

const megabyte = 1024 * 1024;

function admissionOf(limits: Partial<AdmissionLimits> = {}, bodyLimitBytes = megabyte): Admission {
  return new Admission(
    {
      maxConcurrentRequests: 0,
      maxQueuedRequests: 0,
      queueTimeoutMs: 0,
      maxBodyBytesHeld: 4 * megabyte,
      ...limits,
    },
    bodyLimitBytes,
  );
}

/** A request at the door: `state` is what it was told so far. */
function enter(admission: Admission): { ticket: Ticket; state: () => string } {
  const ticket = new Ticket(admission);
  let state = 'waits';
  admission.enter(ticket, (refusal?: RequestError) => {
    state = refusal ? `${refusal.status} ${refusal.code} ${refusal.headers.join(' ')}` : 'runs';
  });
  return { ticket, state: () => state };
}

const countsOf = ({ running, queued, bodyBytesHeld }: Admission): object => ({
  running,
  queued,
  bodyBytesHeld,
});
const nothing = { running: 0, queued: 0, bodyBytesHeld: 0 };

describe('slots', () => {
  it('have no limit by default, and are counted', () => {
    const admission = admissionOf();
    const requests = Array.from({ length: 1000 }, () => enter(admission));
    expect(new Set(requests.map(({ state }) => state()))).toEqual(new Set(['runs']));
    expect(admission.running).toBe(1000);
    for (const { ticket } of requests) admission.release(ticket);
    expect(countsOf(admission)).toEqual(nothing);
  });

  it('go to those that wait in the order in which they came; who comes after a full queue is 429', () => {
    const admission = admissionOf({ maxConcurrentRequests: 1, maxQueuedRequests: 2 });
    const [a, b, c, d] = [1, 2, 3, 4].map(() => enter(admission));
    expect([a, b, c, d].map((request) => request?.state())).toEqual([
      ...['runs', 'waits', 'waits'],
      '429 TOO_MANY_REQUESTS retry-after 1',
    ]);
    expect(countsOf(admission)).toMatchObject({ running: 1, queued: 2 });
    if (a) admission.release(a.ticket);
    expect([b?.state(), c?.state()]).toEqual(['runs', 'waits']);
    expect(b?.ticket.queueMs).toBeGreaterThan(0);
    if (b) admission.release(b.ticket);
    expect(c?.state()).toBe('runs');
    for (const request of [c, d]) if (request) admission.release(request.ticket);
    expect(countsOf(admission)).toEqual(nothing);
    expect(admission.refused).toEqual({ queue_full: 1, queue_timeout: 0, body_bytes: 0 });
  });

  it('are not given to a request that left while it waited', () => {
    const admission = admissionOf({ maxConcurrentRequests: 1, maxQueuedRequests: 2 });
    const [first, gone, last] = [enter(admission), enter(admission), enter(admission)];
    admission.release(gone.ticket);
    expect(admission.queued).toBe(1);
    admission.release(first.ticket);
    expect([gone.state(), last.state()]).toEqual(['waits', 'runs']);
    admission.release(last.ticket);
    expect(countsOf(admission)).toEqual(nothing);
  });

  it('are refused after the longest wait', () => {
    jest.useFakeTimers();
    try {
      const admission = admissionOf({
        maxConcurrentRequests: 1,
        maxQueuedRequests: 1,
        queueTimeoutMs: 100,
      });
      const [first, late] = [enter(admission), enter(admission)];
      jest.advanceTimersByTime(99);
      expect(late.state()).toBe('waits');
      jest.advanceTimersByTime(1);
      expect(late.state()).toBe('429 QUEUE_TIMEOUT retry-after 1');
      expect(admission.refused.queue_timeout).toBe(1);
      admission.release(late.ticket);
      admission.release(first.ticket);
      expect(countsOf(admission)).toEqual(nothing);
      expect(enter(admission).state()).toBe('runs');
      expect(jest.getTimerCount()).toBe(0);
    } finally {
      jest.useRealTimers();
    }
  });

  it('are given back once, however often they are released', () => {
    const admission = admissionOf();
    const { ticket } = enter(admission);
    ticket.hold(10);
    admission.release(ticket);
    admission.release(ticket);
    expect(countsOf(admission)).toEqual(nothing);
  });
});

describe('bytes of bodies', () => {
  it('add up to the limit; one byte more is 503', () => {
    const admission = admissionOf();
    const [a, b] = [enter(admission).ticket, enter(admission).ticket];
    expect(a.hold(3 * megabyte)).toBeUndefined();
    expect(b.hold(megabyte)).toBeUndefined();
    expect(b.hold(megabyte + 1)).toMatchObject({
      status: 503,
      code: 'BODY_MEMORY_FULL',
      headers: ['retry-after', '1'],
    });
    expect(admission.bodyBytesHeld).toBe(4 * megabyte);
    admission.release(a);
    expect(b.hold(megabyte + 1)).toBeUndefined();
    admission.release(b);
    expect(countsOf(admission)).toEqual(nothing);
    expect(admission.refused.body_bytes).toBe(1);
  });

  it('never go down while a request runs, and are not counted after it', () => {
    const admission = admissionOf();
    const { ticket } = enter(admission);
    for (const bytes of [100, 50, 100]) ticket.hold(bytes);
    expect(admission.bodyBytesHeld).toBe(100);
    admission.release(ticket);
    ticket.hold(200);
    expect(countsOf(admission)).toEqual(nothing);
  });

  it.each([
    { name: 'what is configured', maxBodyBytesHeld: 5, bodyLimitBytes: 4, limit: 5 },
    { name: 'one whole body at least', maxBodyBytesHeld: 3, bodyLimitBytes: 4, limit: 4 },
  ])('may be $name', ({ maxBodyBytesHeld, bodyLimitBytes, limit }) => {
    expect(admissionOf({ maxBodyBytesHeld }, bodyLimitBytes).maxBodyBytesHeld).toBe(limit);
  });

  it('may be an eighth of the memory without a configured limit', () => {
    const { maxBodyBytesHeld } = admissionOf({ maxBodyBytesHeld: 0 }, 1);
    expect(maxBodyBytesHeld).toBeGreaterThan(16 * megabyte);
    expect(Number.isInteger(maxBodyBytesHeld)).toBe(true);
  });
});
