import { describe, expect, it } from '@jest/globals';

import { type JsonValue } from '../json/json-value.ts';
import { type ImageGeometry } from './geometry.ts';
import { withProcessorKwargs } from './processor-kwargs.ts';

const geometry: ImageGeometry = {
  patchSize: 16,
  mergeSize: 2,
  minPixels: 65_536,
  maxPixels: 16_777_216,
  doResize: true,
};

function kwargs(entries: Record<string, JsonValue>): Map<string, JsonValue> {
  return new Map(Object.entries(entries));
}

describe('withProcessorKwargs', () => {
  it('takes bounds by both of their names, also inside images_kwargs', () => {
    const size = kwargs({ shortest_edge: 1000n, longest_edge: 2000n });
    expect(withProcessorKwargs(geometry, kwargs({ size }), 'uint8')).toMatchObject({
      minPixels: 1000,
      maxPixels: 2000,
    });
    const inner = kwargs({ images_kwargs: kwargs({ max_pixels: 3000n, do_resize: false }) });
    expect(withProcessorKwargs(geometry, inner, 'uint8')).toMatchObject({
      minPixels: 65_536,
      maxPixels: 3000,
      doResize: false,
    });
  });

  it.each(['do_normalize', 'do_rescale', 'rescale_factor'])(
    'ignores %s for raw pixels and refuses it for normalised ones',
    (key) => {
      const options = kwargs({ [key]: false });
      expect(withProcessorKwargs(geometry, options, 'uint8')).toEqual(geometry);
      expect(() => withProcessorKwargs(geometry, options, 'bfloat16')).toThrow(
        `mm_processor_kwargs.${key} is not supported`,
      );
    },
  );
});
