import { type JsonInput, jsonRaw } from '@llm-d/json-document';
import { expectGolden } from '@llm-d/testing';
import { describe, expect, it } from '@jest/globals';
import {
  type ConcurrentKvConnector,
  concurrentKvConnector,
  ecConnector,
  ecConnectors,
  EndpointError,
  type KvConnector,
  kvConnector,
  type KvConnectorName,
  kvConnectors,
  type SerialKvConnector,
  serialKvConnector,
} from './index.ts';
import { answer, recorded } from './testing.ts';

const answeredKv = recorded('kv-nixl.answered.json');
const answeredEc = [...recorded('ec-nixl.answered.json').elements()];

type Named<T> = [KvConnectorName, T][];
const named = Object.entries(kvConnectors) as Named<KvConnector>;
const serial = named.filter(([, { isConcurrent }]) => !isConcurrent) as Named<SerialKvConnector>;
const concurrent = named.filter(
  ([, { isConcurrent }]) => isConcurrent,
) as Named<ConcurrentKvConnector>;

describe.each(serial)('%s', (name, connector) => {
  const write = (value: JsonInput | undefined): string | undefined =>
    value === undefined ? undefined : jsonRaw(value).toString();
  const params = (): string | undefined => write(connector.prefillParams());
  const decodeParams = (): string | undefined => write(connector.decodeParams(answeredKv).params);

  it('writes the prefill params', () => {
    expectGolden(import.meta.dirname, `${name}.prefill.json`, params() ?? 'null');
  });

  it('writes the decode params', () => {
    expectGolden(import.meta.dirname, `${name}.decode.json`, decodeParams() ?? 'null');
  });

  it('asks decode to pull what prefill was asked to hold, or says nothing to both', () => {
    const read = (text: string | undefined): unknown => text && JSON.parse(text);
    const [asked, told] = [read(params()), read(decodeParams())];
    expect(asked === undefined).toBe(told === undefined);
    if (asked === undefined) return;
    expect(asked).toMatchObject({ do_remote_decode: true, do_remote_prefill: false });
    expect(told).toMatchObject({ do_remote_decode: false, do_remote_prefill: true });
  });

  it('says the same twice and leaves what it was given alone', () => {
    const before = Buffer.from(answeredKv.bytes);
    expect([params(), decodeParams()]).toEqual([params(), decodeParams()]);
    expect(before.equals(answeredKv.bytes)).toBe(true);
  });

  it('never throws on an answer, whatever it holds', () => {
    for (const text of [
      '{}',
      '{"remote_block_ids":{}}',
      '{"remote_host":[null]}',
      '{"a":{"b":[1]}}',
    ]) {
      expect(connector.decodeParams(answer(text))).toHaveProperty('params');
    }
    expect(connector.decodeParams(undefined)).toHaveProperty('params');
  });

  it('is found by its name, and not where legs are concurrent', () => {
    expect(kvConnector(name)).toBe(connector);
    expect(serialKvConnector(name)).toBe(connector);
    expect(() => concurrentKvConnector(name)).toThrow(
      `kv_connector: ${name} calls decode after prefill: replace the step prefill-decode by prefill and decode`,
    );
  });
});

describe.each(concurrent)('%s', (name, connector) => {
  it('writes members that bring two pods together, without transfer params', () => {
    const edits = connector.bootstrap('10.0.3.7:8000', 8998);
    expect(edits).not.toHaveProperty('kv_transfer_params');
    // The room is new for every request.
    const given = { ...edits, bootstrap_room: 7 };
    expectGolden(import.meta.dirname, `${name}.bootstrap.json`, JSON.stringify(given));
  });

  it('refuses an endpoint without saying what it was', () => {
    expect(() => connector.bootstrap('SECRET', 8998)).toThrow(EndpointError);
    expect(() => connector.bootstrap('SECRET', 8998)).not.toThrow(/SECRET/);
  });

  it('names headers in lower case', () => {
    const { conflictingHeaders: names } = connector;
    expect(names).toEqual(names.map((header) => header.toLowerCase()));
  });

  it('is found by its name, and not where legs follow each other', () => {
    expect(kvConnector(name)).toBe(connector);
    expect(concurrentKvConnector(name)).toBe(connector);
    expect(() => serialKvConnector(name)).toThrow(
      `kv_connector: ${name} needs prefill and decode at the same time: replace the steps prefill and decode by prefill-decode`,
    );
  });
});

describe.each(Object.entries(ecConnectors))('%s', (name, connector) => {
  it('writes the prefill params', () => {
    const params = connector.prefillParams(answeredEc);
    expectGolden(import.meta.dirname, `${name}.prefill.json`, params?.toBytes() ?? 'null');
  });

  it('writes nothing when no encode answer has params', () => {
    expect(connector.prefillParams([])).toBeUndefined();
  });

  it('says the same twice in values of their own, and leaves what it was given alone', () => {
    const before = answeredEc.map(({ bytes }) => Buffer.from(bytes));
    const [first, second] = [
      connector.prefillParams(answeredEc),
      connector.prefillParams(answeredEc),
    ];
    expect(first?.toString()).toBe(second?.toString());
    if (first) expect(first).not.toBe(second);
    expect(answeredEc.every(({ bytes }, i) => before[i]?.equals(bytes))).toBe(true);
  });

  it('is found by its name', () => {
    expect(ecConnector(name)).toBe(connector);
  });
});

describe('a connector by name', () => {
  it.each([undefined, ''])('is shared storage for %j', (name) => {
    expect(kvConnector(name)).toBe(kvConnectors['kv-shared-storage']);
    expect(ecConnector(name)).toBe(ecConnectors['ec-shared-storage']);
  });

  it.each(['kv-nixl2', 'NIXL', 'ec-shared-storage', 'toString'])('is refused for %j', (name) => {
    expect(() => kvConnector(name)).toThrow(
      `kv_connector: expected one of kv-nixl, kv-shared-storage, kv-sglang, kv-none, got "${name}"`,
    );
  });

  it.each(['kv-nixl', 'constructor'])('of the encoder cache is refused for %j', (name) => {
    expect(() => ecConnector(name)).toThrow(
      `ec_connector: expected one of ec-nixl, ec-shared-storage, got "${name}"`,
    );
  });
});
