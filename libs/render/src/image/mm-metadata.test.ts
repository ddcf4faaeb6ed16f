import { expect, it } from '@jest/globals';

import { mmMetadata } from './mm-metadata.ts';

it('writes the grid as vLLM does', () => {
  // render.md 14.1
  expect(mmMetadata([1, 20, 14])).toBe(
    'ga5pbWFnZV9ncmlkX3Rod4KkZGF0YZOlaW50NjSRA8cYAwEAAAAAAAAAFAAAAAAAAAAOAAAAAAAAAKVmaWVsZJKnYmF0Y2hlZIGra2VlcF9vbl9jcHXD',
  );
});
