import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { mediaErrorCodes } from '@llm-d/media';
import { errorType } from '@llm-d/pipeline';
import { errorCodesOf, sourceFiles } from './error-codes.ts';
import { errorsPage, root } from './pages.ts';

const page = readFileSync(errorsPage, 'utf8');

/** Rows of the tables of codes: code, status, when, whose fault, what helps, retry. */
const rows = page
  .split('\n')
  .filter((line) => /^\| `\w+` /.test(line))
  .map((line) => line.split(' | ').map((cell) => cell.replaceAll(/^\| | \|$|`/g, '').trim()))
  .map(([code = '', status = '', when = '', fault = '', help = '', retry = '']) => ({
    ...{ code, status, when, fault, help, retry },
  }));

describe('docs/errors.md', () => {
  it('has every code that the sources give, and none besides, once', () => {
    const codes = sourceFiles(root).flatMap(errorCodesOf);
    const all = [...new Set([...codes, ...Object.keys(mediaErrorCodes)])];
    expect(rows.map(({ code }) => code).toSorted()).toEqual(all.toSorted());
  });

  it.each(rows)('tells of $code when, whose fault, what helps and whether to retry', (row) => {
    expect(row.status).toMatch(/^(?:[45]\d\d|4xx, 503, 502|the worker's)$/);
    for (const text of [row.when, row.help]) expect(text).toMatch(/^\S.*\.$/);
    expect(row.fault).toMatch(
      /^(?:client|client or network|origin|operator|coordinator|by status)$/,
    );
    expect(row.retry).toMatch(/^(?:yes|no|see below)$/);
  });

  it.each(Object.entries(mediaErrorCodes))('has status and retry of %s as they are', (code, is) => {
    const row = rows.find((one) => one.code === code);
    expect(row).toMatchObject({
      status: String(is.stepStatus),
      retry: is.retryable ? 'yes' : 'no',
    });
  });

  it('has the type of each status', () => {
    const types = [...page.matchAll(/^\| (\d{3}|every other 4xx|5xx) +\| `(\w+)` +\|$/gm)];
    expect(types.length).toBeGreaterThan(4);
    const statuses: Record<string, number[]> = {
      'every other 4xx': [400, 402, 405, 408, 409, 412, 413, 415, 422, 424, 431],
      '5xx': [500, 502, 503, 504],
    };
    for (const [, status = '', type] of types) {
      for (const one of statuses[status] ?? [Number(status)]) {
        expect({ status: one, type: errorType(one) }).toEqual({ status: one, type });
      }
    }
  });
});

describe('errorCodesOf', () => {
  it.each([
    { source: `readonly code = 'A_CODE';`, codes: ['A_CODE'] },
    { source: `readonly code: 'ONE' | 'TWO';`, codes: ['ONE', 'TWO'] },
    { source: `readonly code:\n    | 'ONE'\n    | 'TWO';`, codes: ['ONE', 'TWO'] },
    { source: `this.code = isLate ? 'ONE' : 'TWO';`, codes: ['ONE', 'TWO'] },
    { source: `this.code = details?.code ?? 'A_CODE';`, codes: ['A_CODE'] },
    { source: `new BadRequestError('no', {\n  code: 'A_CODE',\n})`, codes: ['A_CODE'] },
    { source: `new RequestError(\n  413,\n  'A_CODE',\n  'no')`, codes: ['A_CODE'] },
    { source: `const legCodes = {\n  a: 'ONE',\n  'b-c': 'TWO',\n};`, codes: ['ONE', 'TWO'] },
    { source: `if (error.code === 'ECONNRESET') code = 5;`, codes: [] },
    { source: `const isGone = error?.code === 'CLIENT_GONE' ? 'YES' : 'NO';`, codes: [] },
    { source: `case 'ERR_HTTP_REQUEST_TIMEOUT':`, codes: [] },
  ])('finds $codes in $source', ({ source, codes }) => {
    expect(errorCodesOf(source)).toEqual(codes);
  });
});
