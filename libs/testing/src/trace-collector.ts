import { gunzipSync } from 'node:zlib';
import { type Fields, readProtobuf } from './read-protobuf.ts';
import {
  type RecordedCall,
  type Script,
  scriptedServer,
  type ScriptedServer,
} from './scripted-server.ts';

/** A span as a collector gets it. */
export interface CollectedSpan {
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client' | 'other';
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for a span without a parent. */
  readonly parentId: string;
  readonly traceState: string;
  readonly startNanos: bigint;
  readonly endNanos: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: 'unset' | 'ok' | 'error';
  /** Description of the status. */
  readonly message: string;
  /** Number of events, exceptions among them. */
  readonly eventCount: number;
  /** Attributes of the process that sent it. */
  readonly resource: Readonly<Record<string, unknown>>;
}

/** An OpenTelemetry collector that keeps what it is sent over OTLP. */
export interface TraceCollector extends Pick<ScriptedServer, 'url' | 'calls' | 'play' | 'close'> {
  /** Resolves with all spans so far as soon as they are what is waited for. */
  until(isWhole: (spans: readonly CollectedSpan[]) => boolean): Promise<CollectedSpan[]>;
  /** What has come so far. */
  spans(): CollectedSpan[];
}

/** Starts a collector on a free port of the loopback; the caller closes it. */
export async function traceCollector(script: Script = {}): Promise<TraceCollector> {
  const server = await scriptedServer(script);
  return {
    url: server.url,
    get calls() {
      return server.calls;
    },
    play: (next) => server.play(next),
    close: () => server.close(),
    spans: () => server.calls.flatMap(spansOf),
    async until(isWhole) {
      const spans: CollectedSpan[] = [];
      for (let i = 0; ; i++) {
        spans.push(...spansOf(await server.received(i)));
        if (isWhole(spans)) return spans;
      }
    },
  };
}

/** Field numbers are those of opentelemetry/proto/trace/v1/trace.proto. */
function spansOf({ headers, body }: RecordedCall): CollectedSpan[] {
  const bytes = headers['content-encoding']?.[0] === 'gzip' ? gunzipSync(body) : body;
  return messages(readProtobuf(bytes), 1).flatMap((resourceSpans) => {
    const [resource] = messages(resourceSpans, 1);
    const attributes = resource ? attributesOf(resource, 1) : {};
    return messages(resourceSpans, 2).flatMap((scopeSpans) =>
      messages(scopeSpans, 2).map((span) => toSpan(span, attributes)),
    );
  });
}

const kinds = { 1: 'internal', 2: 'server', 3: 'client' } as const;
const statuses = { 0: 'unset', 1: 'ok', 2: 'error' } as const;

function toSpan(span: Fields, resource: CollectedSpan['resource']): CollectedSpan {
  const [status] = messages(span, 15);
  const code = Number(status ? (number(status, 3) ?? 0n) : 0n);
  return {
    name: text(span, 5),
    kind: kinds[Number(number(span, 6)) as keyof typeof kinds] ?? 'other',
    traceId: hex(span, 1),
    spanId: hex(span, 2),
    parentId: hex(span, 4),
    traceState: text(span, 3),
    startNanos: number(span, 7) ?? 0n,
    endNanos: number(span, 8) ?? 0n,
    attributes: attributesOf(span, 9),
    status: statuses[code as keyof typeof statuses] ?? 'unset',
    message: status ? text(status, 2) : '',
    eventCount: messages(span, 11).length,
    resource,
  };
}

const buffers = (fields: Fields, field: number): Buffer[] =>
  (fields.get(field) ?? []).filter((value) => Buffer.isBuffer(value));

const messages = (fields: Fields, field: number): Fields[] =>
  buffers(fields, field).map(readProtobuf);

const hex = (fields: Fields, field: number): string =>
  buffers(fields, field)[0]?.toString('hex') ?? '';

const text = (fields: Fields, field: number): string => buffers(fields, field)[0]?.toString() ?? '';

function number(fields: Fields, field: number): bigint | undefined {
  const value = fields.get(field)?.[0];
  return typeof value === 'bigint' ? value : undefined;
}

function attributesOf(fields: Fields, field: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(fields, field).map((pair) => {
      const [value] = messages(pair, 2);
      return [text(pair, 1), value && scalar(value)];
    }),
  );
}

/** A string, a boolean or a whole number; others are not looked into. */
function scalar(value: Fields): unknown {
  if (value.has(1)) return text(value, 1);
  if (value.has(2)) return number(value, 2) === 1n;
  return value.has(3) ? Number(number(value, 3)) : undefined;
}
