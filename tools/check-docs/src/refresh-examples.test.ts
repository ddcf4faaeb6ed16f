import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { refreshExamples } from './refresh-examples.ts';

let testdata: string;

beforeEach(() => {
  testdata = mkdtempSync(join(tmpdir(), 'golden-'));
  for (const folder of ['legs', 'answers', 'requests']) mkdirSync(join(testdata, folder));
  const leg = `{
  "method": "POST",
  "path": "/v1/chat/completions",
  "headers": { "x-request-id": "1", "epp-profile": "prefill" },
  "body": {
    "seed": 9007199254740993,
    "messages": [
      { "content": "$& two  blanks" }
    ]
  }
}
`;
  writeFileSync(join(testdata, 'legs/prefill.chat.json'), leg);
  writeFileSync(join(testdata, 'legs/conditional-decode.chat.json'), leg);
  writeFileSync(join(testdata, 'requests/chat.json'), '{ "seed": 1 }\n');
  writeFileSync(join(testdata, 'answers/decode.sse'), 'data: 1\n\ndata: [DONE]\n\n');
});

afterEach(() => rmSync(testdata, { recursive: true }));

const request = `<!-- leg: prefill.chat -->

\`\`\`http
POST /v1/chat/completions
x-request-id: 1
epp-profile: prefill

{
  "seed": 9007199254740993,
  "messages": [
    { "content": "$& two  blanks" }
  ]
}
\`\`\``;

describe('refreshExamples', () => {
  it('writes a request below its marker, with every digit', () => {
    expect(refreshExamples('a\n\n<!-- leg: prefill.chat -->\n\nb\n', testdata)).toBe(
      `a\n\n${request}\n\nb\n`,
    );
  });

  it('writes over an example that is old, and only over that', () => {
    const old = request.replace('9007199254740993', '2');
    const page = `${old}\n\ntext\n\n\`\`\`json\n{}\n\`\`\`\n`;
    expect(refreshExamples(page, testdata)).toBe(page.replace(old, () => request));
  });

  it('leaves a page alone that is up to date', () => {
    expect(refreshExamples(`${request}\n`, testdata)).toBe(`${request}\n`);
  });

  it('writes answers with the type that their name tells', () => {
    expect(refreshExamples('<!-- answer: decode.sse -->', testdata)).toContain(
      'HTTP/1.1 200 OK\ncontent-type: text/event-stream\n\ndata: 1\n\ndata: [DONE]\n```',
    );
  });

  it('writes what a client sends, to the path that it asks for', () => {
    expect(refreshExamples('<!-- client: chat -->', testdata)).toContain(
      'POST /v1/chat/completions\ncontent-type: application/json\n\n{ "seed": 1 }\n```',
    );
  });

  it('fails at a marker whose file is not there', () => {
    expect(() => refreshExamples('<!-- leg: nothing -->', testdata)).toThrow('ENOENT');
  });
});
