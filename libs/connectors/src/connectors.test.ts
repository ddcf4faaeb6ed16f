import { jsonRaw } from '@llm-d/json-document';
import { expectGolden } from '@llm-d/testing';
import { describe, expect, it } from '@jest/globals';
import { ecConnector, ecConnectors, kvConnector, kvConnectors } from './index.ts';
import { answer, recorded } from './testing.ts';

const answeredKv = recorded('kv-nixl.answered.json');
const answeredEc = [...recorded('ec-nixl.answered.json').elements()];

describe.each(Object.entries(kvConnectors))('%s', (name, connector) => {
  it('writes the prefill params', () => {
    expectGolden(
      import.meta.dirname,
      `${name}.prefill.json`,
      jsonRaw(connector.prefillParams()).toBytes(),
    );
  });

  it('writes the decode params', () => {
    const { params } = connector.decodeParams(answeredKv);
    expectGolden(import.meta.dirname, `${name}.decode.json`, params && jsonRaw(params).toBytes());
  });

  it('asks decode to pull what prefill was asked to hold', () => {
    const read = (value: Parameters<typeof jsonRaw>[0]): unknown =>
      JSON.parse(jsonRaw(value).toString());
    expect(read(connector.prefillParams())).toMatchObject({
      do_remote_decode: true,
      do_remote_prefill: false,
    });
    expect(read(connector.decodeParams(answeredKv).params ?? null)).toMatchObject({
      do_remote_decode: false,
      do_remote_prefill: true,
    });
  });

  it('says the same twice and leaves what it was given alone', () => {
    const before = Buffer.from(answeredKv.bytes);
    const write = (): string =>
      jsonRaw([
        connector.prefillParams(),
        connector.decodeParams(answeredKv).params ?? null,
      ]).toString();
    expect(write()).toBe(write());
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

  it('is found by its name', () => {
    expect(kvConnector(name)).toBe(connector);
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
      `kv_connector: expected one of kv-nixl, kv-shared-storage, got "${name}"`,
    );
  });

  it.each(['kv-nixl', 'constructor'])('of the encoder cache is refused for %j', (name) => {
    expect(() => ecConnector(name)).toThrow(
      `ec_connector: expected one of ec-nixl, ec-shared-storage, got "${name}"`,
    );
  });
});
