import { describe, expect, it } from '@jest/globals';
import { formatJson } from './format-json.ts';

describe('formatJson', () => {
  it.each([
    { name: 'numbers beyond a double', text: '{"a":9007199254740993,"b":1.0,"c":1e400}' },
    { name: 'escapes', text: '"\\u00e9\\/\\"{,:}"' },
    { name: 'duplicate names', text: '{"a":1,"a":2}' },
    { name: 'nothing inside', text: '[{},[],""]' },
  ])('keeps $name', ({ text }) => {
    expect(formatJson(text).replaceAll(/[ \n]/g, '')).toBe(text);
  });

  it('keeps short lists and objects on one line and breaks long ones', () => {
    const long = 'x'.repeat(90);
    expect(formatJson(`{"a":[1,2],"b":{"c":"${long}","d":{}},"e":null}`)).toBe(
      `{\n  "a": [1, 2],\n  "b": {\n    "c": "${long}",\n    "d": {}\n  },\n  "e": null\n}\n`,
    );
  });

  it('does not depend on the blanks of the text', () => {
    expect(formatJson(' {\n"a" :\t[ 1 ,2 ] } ')).toBe(formatJson('{"a":[1,2]}'));
  });
});
