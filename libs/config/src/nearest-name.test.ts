import { describe, expect, it } from '@jest/globals';
import { nearestName } from './nearest-name.ts';

const known = ['read_timeout', 'write_timeout', 'listen_addr', 'address'];

describe('nearestName', () => {
  it.each([
    { given: 'read_timout', nearest: 'read_timeout' },
    { given: 'listen_address', nearest: 'listen_addr' },
    { given: 'adress', nearest: 'address' },
    { given: 'writetimeout', nearest: 'write_timeout' },
  ])('takes $given for $nearest', ({ given, nearest }) => {
    expect(nearestName(given, known)).toBe(nearest);
  });

  it.each(['colour', 'x', ''])('knows nothing near %p', (given) => {
    expect(nearestName(given, known)).toBeUndefined();
  });
});
