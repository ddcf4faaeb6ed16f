/** One lane as the allocator sees it, in the order of strict priority. */
export interface LaneDemand {
  readonly lane: string;
  /** Tickets that could start. */
  readonly backlog: number;
  readonly running: number;
}

/**
 * Divides a process's slots among lanes. Every lane gets one as long as there are any, so that an idle lane starts its
 * first ticket at once; then, lane by lane, what runs and waits there; what is left over goes to the first lane. A lane
 * that comes away empty has 0 and should pause. What runs is never taken back: it may be more than its share.
 */
export function allocateSlots(lanes: readonly LaneDemand[], slots: number): Map<string, number> {
  const shares = new Map<string, number>();
  let left = slots;
  for (const { lane } of lanes) {
    const share = Math.min(left, 1);
    shares.set(lane, share);
    left -= share;
  }
  for (const { lane, backlog, running } of lanes) {
    const share = shares.get(lane) ?? 0;
    const more = Math.min(left, Math.max(backlog + running - share, 0));
    shares.set(lane, share + more);
    left -= more;
  }
  const [first] = lanes;
  if (first !== undefined) {
    shares.set(first.lane, (shares.get(first.lane) ?? 0) + left);
  }
  return shares;
}
