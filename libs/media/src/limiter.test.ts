import { describe, expect, it } from '@jest/globals';
import { Limiter } from './limiter.ts';
import { MediaError } from './media-error.ts';
import { failureOf, never } from './testing.ts';

describe('the limiter', () => {
  it('grants in order of arrival, so that small requests do not starve a large one', async () => {
    const limiter = new Limiter('units', 10, 5);
    await limiter.acquire(8, never());
    const order: string[] = [];
    const large = limiter.acquire(9, never()).then(() => order.push('large'));
    const small = limiter.acquire(1, never()).then(() => order.push('small'));
    expect([limiter.used, limiter.queued]).toEqual([8, 2]);
    limiter.release(8);
    await Promise.all([large, small]);
    expect(order).toEqual(['large', 'small']);
    expect([limiter.used, limiter.queued]).toEqual([10, 0]);
  });

  it('refuses when its queue is full', async () => {
    const limiter = new Limiter('units', 1, 1);
    await limiter.acquire(1, never());
    const waiting = limiter.acquire(1, never());
    const failure = await failureOf(() => limiter.acquire(1, never()));
    expect(failure).toMatchObject({ code: 'media_overloaded', stepStatus: 503, retryable: true });
    limiter.release(1);
    await waiting;
  });

  it('lets the next one pass when a large waiter leaves', async () => {
    const limiter = new Limiter('units', 10, 5);
    await limiter.acquire(5, never());
    const leaving = new AbortController();
    const large = failureOf(() => limiter.acquire(9, leaving.signal));
    const small = limiter.acquire(2, never());
    leaving.abort(new MediaError('media_cancelled', 'gone'));
    expect((await large).code).toBe('media_cancelled');
    await small;
    expect([limiter.used, limiter.queued]).toEqual([7, 0]);
  });

  it('calls a deadline that passes in its queue an overload', async () => {
    const limiter = new Limiter('units', 1, 1);
    await limiter.acquire(1, never());
    const deadline = new AbortController();
    const late = failureOf(() => limiter.acquire(1, deadline.signal));
    deadline.abort(new MediaError('media_timeout', 'late'));
    expect((await late).code).toBe('media_overloaded');
  });

  it('keeps what it granted when the signal aborts right after', async () => {
    const limiter = new Limiter('units', 1, 2);
    await limiter.acquire(1, never());
    const leaving = new AbortController();
    const granted = limiter.acquire(1, leaving.signal);
    const next = limiter.acquire(1, never());
    limiter.release(1);
    leaving.abort(new MediaError('media_cancelled', 'gone'));
    await granted;
    expect([limiter.used, limiter.queued]).toEqual([1, 1]);
    limiter.release(1);
    await next;
  });
});
