import { describe, expect, it } from '@jest/globals';
import { AnswerTail, answerTailBytes } from './answer-tail.ts';

const pattern = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, i) => i % 251));

describe('AnswerTail', () => {
  it('is empty before the first byte', () => {
    expect(new AnswerTail().bytes).toHaveLength(0);
  });

  it.each([
    { total: 10, chunk: 3 },
    { total: answerTailBytes, chunk: answerTailBytes },
    { total: 20_000, chunk: 1 },
    { total: 20_001, chunk: 199 },
    { total: 20_000, chunk: 4_095 },
    { total: 20_000, chunk: 4_097 },
    { total: 20_000, chunk: 20_000 },
  ])('keeps the last 4096 of $total bytes that come $chunk at a time', ({ total, chunk }) => {
    const answer = pattern(total);
    const tail = new AnswerTail();
    for (let at = 0; at < total; at += chunk) tail.add(answer.subarray(at, at + chunk));
    expect(tail.bytes.equals(answer.subarray(-answerTailBytes))).toBe(true);
  });
});
