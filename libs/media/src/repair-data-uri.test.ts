import { describe, expect, it } from '@jest/globals';
import { repairDataUri } from './repair-data-uri.ts';

const head = 'data:image/png;base64,';
const repaired = (payload: string): string | undefined =>
  repairDataUri(Buffer.from(head + payload))?.toString();

describe('[120] a data URI with repair', () => {
  it.each([
    { name: 'percent escapes', payload: 'AA%3D%3d', expected: 'AA==' },
    { name: 'blanks and line breaks', payload: ' QUJD\r\nQU JD\t', expected: 'QUJDQUJD' },
    { name: 'the URL-safe alphabet', payload: 'a-_b', expected: 'a+/b' },
    { name: 'missing padding', payload: 'QUI', expected: 'QUI=' },
    { name: 'too much padding', payload: 'QUI==', expected: 'QUI=' },
    { name: 'nothing to mend', payload: 'QUJD', expected: 'QUJD' },
    { name: 'padding inside, which stays wrong', payload: 'AA==AAAA', expected: 'AA==AAAA' },
  ])('has $name mended', ({ payload, expected }) => {
    expect(repaired(payload)).toBe(head + expected);
  });

  it.each([
    { name: 'no payload', payload: '' },
    { name: 'blanks alone', payload: ' \n' },
    { name: 'a single character', payload: 'Q' },
  ])('is beyond mending with $name', ({ payload }) => {
    expect(repaired(payload)).toBeUndefined();
  });

  it('is beyond mending without a comma', () => {
    expect(repairDataUri(Buffer.from('data:image/png;base64'))).toBeUndefined();
  });
});
