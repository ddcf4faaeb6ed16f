import { jsonRaw } from '@llm-d/json-document';
import { describe, expect, it } from '@jest/globals';
import { answer } from '../testing.ts';
import { sharedStorage } from './shared-storage.ts';

describe('kv-shared-storage', () => {
  it('asks with the two flags alone', () => {
    expect(jsonRaw(sharedStorage.prefillParams() ?? null).toString()).toBe(
      '{"do_remote_decode":true,"do_remote_prefill":false}',
    );
  });

  it.each([undefined, '{}', '{"ignored":1,"do_remote_prefill":false}'])(
    'takes nothing over from the answer %s',
    (answered) => {
      const { params } = sharedStorage.decodeParams(
        answered === undefined ? undefined : answer(answered),
      );
      expect(jsonRaw(params ?? null).toString()).toBe(
        '{"do_remote_decode":false,"do_remote_prefill":true}',
      );
    },
  );

  it('has no lease', () => {
    expect(sharedStorage.isLeased).toBe(false);
  });
});
