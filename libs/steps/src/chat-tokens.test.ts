import { jsonRaw, rootOf } from '@llm-d/json-document';
import { TokenIds } from '@llm-d/pipeline';
import { requestContext } from '@llm-d/pipeline/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { chatTokens } from './chat-tokens.ts';
import { Rig, seedWire } from './testing.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

function write(isSeed: boolean, ids?: string): string {
  const ctx = requestContext();
  if (ids !== undefined) ctx.tokenIds = TokenIds.read(rootOf(Buffer.from(ids)));
  ctx.media = [{ modality: 'image', hash: 'h', placeholder: { offset: 1, length: 3 } }];
  return jsonRaw(chatTokens(ctx, rig.dependencies(isSeed ? { wire: seedWire } : {}))).toString();
}

describe('the tokens object of chat legs', () => {
  it('is not part of the newest wire', () => {
    expect(write(false, '[1]')).toBe('{}');
  });

  it('has ids and features without tensors on the wire of the seed era', () => {
    expect(write(true, '[1, 2]')).toBe(
      '{"tokens":{"token_ids":[1, 2],"features":{"mm_hashes":{"image":["h"]},"mm_placeholders":{"image":[{"offset":1,"length":3}]}}}}',
    );
  });

  it('is left out where nothing was rendered', () => {
    expect(write(true)).toBe('{}');
  });
});
