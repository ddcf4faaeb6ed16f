/** A step or leg as the coordinator measured it, in milliseconds since the request arrived. */
export interface Span {
  readonly name: string;
  readonly kind: 'step' | 'leg';
  readonly index?: number | undefined;
  readonly startMs: number;
  readonly endMs: number;
  readonly status?: number | undefined;
}

const [nameWidth, barWidth] = [26, 48];

/** Draws one bar a span on a common time axis. */
export function waterfall(spans: readonly Span[]): string {
  const total = Math.max(1, ...spans.map(({ endMs }) => endMs));
  const ordered = [...spans].sort((a, b) => a.startMs - b.startMs || rank(a) - rank(b));
  const lines = ordered.map((span) => {
    const from = Math.min(barWidth - 1, Math.floor((span.startMs / total) * barWidth));
    const to = Math.max(from + 1, Math.ceil((span.endMs / total) * barWidth));
    const bar = (span.kind === 'step' ? '░' : '█').repeat(to - from);
    const length = `${(span.endMs - span.startMs).toFixed(1)} ms`.padStart(10);
    return `${label(span).padEnd(nameWidth)}│${(' '.repeat(from) + bar).padEnd(barWidth)}│${length}`;
  });
  const scale = `${' '.repeat(nameWidth)} 0${`${total.toFixed(0)} ms`.padStart(barWidth - 1)}`;
  return [...lines, scale].join('\n');
}

const rank = ({ kind }: Span): number => (kind === 'step' ? 0 : 1);

function label({ name, kind, index, status }: Span): string {
  if (kind === 'step') return name;
  return `  ↳ leg${index === undefined ? '' : ` ${index}`}${status === undefined ? '' : ` (${status})`}`;
}
