import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Aimd } from './aimd.ts';
import { type GateReason, type GateRequest, type GateSettings, LaneGates } from './lane-gates.ts';

afterEach(() => {
  jest.useRealTimers();
});

const limits = { minWindow: 1, maxWindow: 4, increase: 1, decrease: 0.5 };

function open(change: Partial<GateSettings> = {}) {
  const reasons: GateReason[] = [];
  const gates = new LaneGates(
    {
      lanes: ['interactive', 'batch'],
      slots: 8,
      aimd: undefined,
      saturated: 'wait',
      longestWaitMs: 10_000,
      ...change,
    },
    (reason) => reasons.push(reason),
  );
  return { gates, reasons };
}
const request = (change: Partial<GateRequest> = {}): GateRequest => ({
  lane: 'batch',
  tier: 'batch',
  classification: 'reserved',
  remainingMs: 60_000,
  signal: new AbortController().signal,
  ...change,
});
async function enter(gates: LaneGates, change: Partial<GateRequest> = {}) {
  const result = await gates.pass(request(change));
  if (result.kind !== 'go') throw new Error(`expected a passage, got ${result.kind}`);
  return result.passage;
}

describe('the gates of a process', () => {
  it('R15, P33: refuse a ticket in hand after the operator closed its lane, and no other lane', async () => {
    const { gates, reasons } = open();
    const first = await enter(gates);
    gates.setBudget('batch', 0);
    expect(await gates.pass(request())).toEqual({ kind: 'refuse' });
    expect(reasons).toEqual(['gate_closed']);
    await enter(gates, { lane: 'interactive' });
    gates.setBudget('batch', 1);
    await enter(gates);
    first.leave('accepted');
    expect(gates.inFlight('batch')).toBe(1);
  });

  it('leave a lane the share of its slots that the budget names', async () => {
    const { gates } = open();
    gates.setBudget('batch', 0.25);
    await enter(gates);
    await enter(gates);
    expect(await gates.pass(request())).toEqual({ kind: 'refuse' });
  });

  it('close a lane for as long as the target asks', async () => {
    jest.useFakeTimers();
    const { gates } = open();
    gates.close('batch', 30);
    gates.close('batch', 1);
    expect(await gates.pass(request())).toEqual({ kind: 'refuse' });
    jest.advanceTimersByTime(29);
    expect(await gates.pass(request())).toEqual({ kind: 'refuse' });
    jest.advanceTimersByTime(1);
    await enter(gates);
  });

  it('have a request wait in hand until the window opens', async () => {
    const { gates } = open({ aimd: new Aimd(6, limits) });
    const first = await enter(gates);
    const second = gates.pass(request());
    first.leave('accepted');
    expect(await second).toMatchObject({ kind: 'go' });
  });

  it('R16: give a request back unharmed that waited too long', async () => {
    const { gates } = open({ aimd: new Aimd(6, limits), longestWaitMs: 1 });
    await enter(gates);
    expect(await gates.pass(request())).toEqual({ kind: 'refuse' });
  });

  it('end a wait with the signal, before it as well', async () => {
    const { gates } = open({ aimd: new Aimd(6, limits) });
    await enter(gates);
    const control = new AbortController();
    const waiting = gates.pass(request({ signal: control.signal }));
    control.abort();
    expect(await waiting).toEqual({ kind: 'ended' });
    expect(await gates.pass(request({ signal: control.signal }))).toEqual({ kind: 'ended' });
  });

  it('drop overflow that is watched and return other overflow, by tier', async () => {
    const { gates, reasons } = open({ aimd: new Aimd(6, limits), saturated: 'by-tier' });
    const overflow = { classification: 'overflow', tier: 'interactive' } as const;
    await enter(gates, overflow);
    expect(await gates.pass(request(overflow))).toEqual({ kind: 'drop' });
    expect(await gates.pass(request({ ...overflow, tier: 'async' }))).toEqual({ kind: 'refuse' });
    expect(reasons).toEqual(['dropped', 'gate_closed']);
  });

  it('rank reserved before overflow, lanes in order, unknown lanes last', () => {
    const { gates } = open();
    const ranks = (['reserved', 'overflow'] as const).flatMap((classification) =>
      ['interactive', 'batch', 'removed'].map((lane) => gates.rank(lane, classification)),
    );
    expect(ranks).toEqual([0, 1, 2, 3, 4, 5]);
  });
});
