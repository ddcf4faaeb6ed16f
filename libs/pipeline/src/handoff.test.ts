import { describe, expect, it } from '@jest/globals';
import { Handoff, summarizeHandoffs } from './handoff.ts';
import { HandoffCounts } from './handoff-counts.ts';

const kv = { kind: 'kv', connector: 'kv-nixl' } as const;

/** A hand-off, and the events that were told of it in order. */
function offered(release?: (handoff: Handoff) => void): { handoff: Handoff; events: string[] } {
  const events: string[] = [];
  const handoff = new Handoff(kv, ({ event }) => events.push(event), release);
  return { handoff, events };
}

describe('a hand-off', () => {
  it('that was sent is used when the request is over', () => {
    const { handoff, events } = offered(() => {
      throw new Error('released');
    });
    handoff.sent();
    expect(handoff.state).toBe('sent');
    handoff.end();
    expect(events).toEqual(['offered', 'used']);
  });

  it('that was not sent expires where nothing can give it back', () => {
    const { handoff, events } = offered();
    handoff.end();
    expect(events).toEqual(['offered', 'expired']);
  });

  it.each(['released', 'expired'] as const)(
    'that was not sent is given back where it can be, which ends as %s',
    (outcome) => {
      const given: Handoff[] = [];
      const { handoff, events } = offered((self) => given.push(self));
      handoff.end();
      handoff.end();
      expect(given).toEqual([handoff]);
      expect(handoff.state).toBe('releasing');
      expect(events).toEqual(['offered']);
      handoff.settle(outcome);
      expect(events).toEqual(['offered', outcome]);
    },
  );

  it('that came back unused is given back', () => {
    const given: Handoff[] = [];
    const { handoff } = offered((self) => given.push(self));
    handoff.sent();
    handoff.returned();
    handoff.end();
    expect(given).toEqual([handoff]);
  });

  it('has one outcome, the first', () => {
    const { handoff, events } = offered();
    handoff.settle('expired');
    handoff.sent();
    handoff.returned();
    handoff.settle('used');
    handoff.end();
    expect(handoff.state).toBe('expired');
    expect(events).toEqual(['offered', 'expired']);
  });
});

describe('the summary of hand-offs', () => {
  it('counts them by kind and state', () => {
    const [a, b] = [offered().handoff, offered().handoff];
    const ec = new Handoff({ kind: 'ec', connector: 'ec-nixl' }, () => {});
    a.settle('used');
    ec.sent();
    expect(summarizeHandoffs([a, b, ec])).toEqual({ kv: { used: 1, open: 1 }, ec: { sent: 1 } });
  });

  it('is absent when there were none', () => {
    expect(summarizeHandoffs(undefined)).toBeUndefined();
  });
});

it('counts are kept by kind and connector, and balance', () => {
  const counts = new HandoffCounts();
  const open = new Handoff(kv, counts.count);
  new Handoff({ kind: 'ec', connector: 'ec-nixl' }, counts.count).settle('expired');
  new Handoff(kv, counts.count).settle('released');
  open.sent();
  open.end();
  expect(JSON.parse(JSON.stringify(counts))).toEqual({
    kv: { 'kv-nixl': { offered: 2, used: 1, released: 1, expired: 0 } },
    ec: { 'ec-nixl': { offered: 1, used: 0, released: 0, expired: 1 } },
  });
});
