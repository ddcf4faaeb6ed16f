import { defaultEcConnector, defaultKvConnector } from '@llm-d/connectors';
import { type JsonSpan } from '@llm-d/json-document';
import {
  Handoff,
  type HandoffKind,
  type RequestContext,
  type StepDependencies,
} from '@llm-d/pipeline';
import { fateAfter } from './kv-fate.ts';
import { type HandoffConnector, kvRelease } from './kv-release.ts';

/** Writes down the KV blocks that prefill answered and holds; connectors without a lease hold nothing. */
export function offerKv(
  ctx: RequestContext,
  dependencies: StepDependencies,
  connectorName: string | undefined,
  connector: HandoffConnector,
  answered: JsonSpan,
): void {
  if (!connector.isLeased) return;
  const release = kvRelease(ctx, dependencies, connector, answered);
  offer(ctx, dependencies, 'kv', connectorName || defaultKvConnector, release);
}

/** Writes down what an encode answer describes. No call gives it back: the pod's cache drops it in time. */
export function offerEc(
  ctx: RequestContext,
  dependencies: StepDependencies,
  connectorName: string | undefined,
  answered: readonly JsonSpan[],
): void {
  const isHeld = answered.some((params) => params.members().some(({ value }) => !value.isNull()));
  if (isHeld) offer(ctx, dependencies, 'ec', connectorName || defaultEcConnector);
}

/** Past its lease a hand-off is left alone: its blocks may hold another prompt. */
export function expireKv(ctx: RequestContext): void {
  heldKv(ctx)?.settle('expired');
  ctx.kvTransferParams = undefined;
}

/** To be called when a decode leg with KV params is on the wire; undefined when the leg hands nothing over. */
export function kvSent(
  ctx: RequestContext,
  dependencies: StepDependencies,
  connectorName: string | undefined,
  { isLeased }: Pick<HandoffConnector, 'isLeased'>,
): (() => void) | undefined {
  if (isLeased) {
    const held = heldKv(ctx);
    return held && (() => held.sent());
  }
  // A store keeps what prefill wrote: there is a hand-off when decode is told to look there.
  if (ctx.kvReceivedAt === 0) return undefined;
  return () => {
    // A leg on a connection that had broken goes out twice.
    if (heldKv(ctx)) return;
    offer(ctx, dependencies, 'kv', connectorName || defaultKvConnector).settle('used');
  };
}

/** To be called when a prefill leg is on the wire; undefined when no encode answer offered anything. */
export function ecSent({ handoffs }: RequestContext): (() => void) | undefined {
  if (!handoffs?.some(({ kind }) => kind === 'ec')) return undefined;
  return () => {
    for (const handoff of handoffs) if (handoff.kind === 'ec') handoff.sent();
  };
}

/** Applies the rules of `kv-fate.ts` to a decode leg that failed. */
export function settleFailedKv(ctx: RequestContext, error: unknown): void {
  const held = heldKv(ctx);
  if (held?.state !== 'sent') return;
  const fate = fateAfter(error, ctx.api);
  if (fate === 'returned') held.returned();
  else if (fate === 'freed') held.settle('released');
  else if (fate === 'left') held.settle('expired');
}

/** The KV hand-off of the last prefill answer. */
const heldKv = ({ handoffs }: RequestContext): Handoff | undefined =>
  handoffs?.findLast(({ kind }) => kind === 'kv');

function offer(
  ctx: RequestContext,
  { onHandoff }: StepDependencies,
  kind: HandoffKind,
  connector: string,
  release?: (handoff: Handoff) => void,
): Handoff {
  const handoff = new Handoff({ kind, connector }, onHandoff, release);
  ctx.addHandoff(handoff);
  return handoff;
}
