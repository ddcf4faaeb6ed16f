import { describe, expect, it, jest } from '@jest/globals';
import { traceCollector } from '@llm-d/testing';
import { Rig, until } from './testing.ts';

jest.setTimeout(20_000);

const traceId = '0af7651916cd43dd8448eb211c80319c';
const submitSpan = 'b7ad6b7169203331';
const traceparent = `00-${traceId}-${submitSpan}-01`;

describe('a traced run', () => {
  it('belongs to the trace that submitted it, and carries it to the target', async () => {
    const collector = await traceCollector();
    await using rig = await Rig.open({
      collector: collector.url,
      script: [{ status: 400, text: 'no' }, { json: {} }],
    });
    await rig.outcome(await rig.submit({ traceparent }));
    await rig.outcome(await rig.submit({ traceparent }));
    // Given back, and then never asked for again: this process ends before.
    rig.upstream.play({ status: 503, text: 'busy' });
    await rig.submit({ traceparent });
    await until(async () => (await rig.broker.backlog(rig.lane)).delayed === 1);
    await rig.stop();
    const spans = collector.spans();
    const [failed, run, parked] = spans.filter(({ name }) => name === 'process-request');
    const below = (parent: typeof run) =>
      spans.filter(({ parentId }) => parentId === parent?.spanId);
    expect(run).toMatchObject({
      ...{ traceId, parentId: submitSpan, kind: 'other', status: 'unset' },
      attributes: { 'queue.id': 'lane-a', 'queue.name': 'lane-a', 'retry.count': 0 },
      resource: { 'service.name': 'llm-d-async-broker' },
    });
    const [call] = below(run);
    const requestId = rig.upstream.calls[1]?.headers['x-request-id']?.[0];
    expect(call).toMatchObject({
      ...{ name: 'http-request', kind: 'client', traceId },
      attributes: { 'request.id': requestId, 'http.response.status_code': 200 },
    });
    expect(rig.upstream.calls[1]?.headers['traceparent']).toEqual([
      `00-${traceId}-${call?.spanId ?? ''}-01`,
    ]);
    expect(failed).toMatchObject({
      ...{ status: 'error', attributes: { 'error.category': 'INVALID_REQ' } },
    });
    expect(below(parked).map(({ name }) => name)).toEqual(['http-request', 're-enqueue']);
    expect(rig.lines.filter(({ msg }) => msg === 'dispatched')).toMatchObject([
      { trace_id: traceId, span_id: failed?.spanId },
      { trace_id: traceId, span_id: run?.spanId },
      { trace_id: traceId, span_id: parked?.spanId },
    ]);
    await collector.close();
  });

  it('carries the stored context as it is where nothing is traced', async () => {
    await using rig = await Rig.open();
    await rig.outcome(await rig.submit({ traceparent }));
    expect(rig.upstream.calls[0]?.headers['traceparent']).toEqual([traceparent]);
    expect(rig.lines.find(({ msg }) => msg === 'dispatched')).not.toHaveProperty('trace_id');
  });
});
