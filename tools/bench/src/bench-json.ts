import { type JsonSpan, JsonDocument, setMember, validateJson } from '@llm-d/json-document';
import { chatBody, prose, tokenIds } from './bodies.ts';
import { median } from './median.ts';
import { printTable } from './print-table.ts';

const rounds = 15;
/** A sample calls as often as this time allows. */
const sampleMs = 30;
const imageBytes = 700 * 1024;
const promptBytes = 132 * 1024;

interface Case {
  readonly name: string;
  readonly ours: () => unknown;
  readonly besideName: string;
  readonly beside: () => unknown;
  readonly target: string;
}

/** Milliseconds of the fastest call of a sample: other processes only ever make a call slower. */
function timed(call: () => unknown): number {
  const end = performance.now() + sampleMs;
  let best = Infinity;
  for (let start = performance.now(); start < end; start = performance.now()) {
    call();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

/** What "reading the bytes once" means: a plain loop that needs each of them, in small integers as the engine likes. */
function sum(bytes: Uint8Array): number {
  const { length } = bytes;
  let total = 0;
  for (let i = 0; i < length; i++) total = (total + (bytes[i] ?? 0)) | 0;
  return total;
}

const kvParams = { do_remote_decode: false, do_remote_prefill: true, remote_block_ids: [1, 2, 3] };

/** What a decode leg needs of a request: the KV hand-off at the top and a hash in each image part. */
function editBytes(bytes: Buffer): readonly Uint8Array[] {
  const document = JsonDocument.parse(bytes, {
    uniqueKeys: new Set(['model', 'stream', 'messages']),
    loneSurrogates: 'reject',
  });
  return document
    .patch(imageParts(document).map((part, i) => setMember(part, 'uuid', `hash-${i}`)))
    .with({ kv_transfer_params: kvParams })
    .chunks();
}

function imageParts(document: JsonDocument): JsonSpan[] {
  const messages = [...(document.get('messages')?.elements() ?? [])];
  const parts = messages.flatMap((message) => [...(message.get('content')?.elements() ?? [])]);
  return parts.filter((part) => part.get('type')?.text() === 'image_url');
}

interface Tree {
  messages: { content: { type: string; uuid?: string }[] }[];
  kv_transfer_params?: typeof kvParams;
}

/** The same by way of a tree. */
function editTree(bytes: Buffer): Buffer {
  const tree = JSON.parse(bytes.toString('utf8')) as Tree;
  const parts = tree.messages.flatMap(({ content }) => content);
  parts.filter(({ type }) => type === 'image_url').forEach((part, i) => (part.uuid = `hash-${i}`));
  tree.kv_transfer_params = kvParams;
  return Buffer.from(JSON.stringify(tree));
}

const head = { model: 'bench', max_tokens: 16 };

/** Validating a text, beside a sum over its bytes. */
function readOnce(name: string, bytes: Buffer): Case {
  return {
    name: `${name}, ${Math.round(bytes.length / 1024)} KB: validate`,
    ours: () => validateJson(bytes),
    besideName: 'sum of the bytes',
    beside: () => sum(bytes),
    target: '1.5',
  };
}

function cases(): Case[] {
  const images = chatBody(head, 'What is the difference?', Array<number>(4).fill(imageBytes));
  const same = JSON.stringify(JSON.parse(Buffer.concat(editBytes(images)).toString()));
  if (same !== editTree(images).toString()) throw new Error('the edits differ');
  const escapes = prose(promptBytes / 2).replaceAll(' ', '\n"');
  const ids = Buffer.from(JSON.stringify({ token_ids: tokenIds(30_000) }));
  return [
    {
      name: `4 images, ${(images.length / 1e6).toFixed(1)} MB: validate and edit`,
      ours: () => editBytes(images),
      besideName: 'JSON.parse, JSON.stringify',
      beside: () => editTree(images),
      target: '0.1',
    },
    readOnce('prose', chatBody(head, prose(promptBytes))),
    readOnce('dense escapes', chatBody(head, escapes.repeat(2).slice(0, promptBytes / 1.25))),
    readOnce('30,000 token ids', ids),
  ];
}

/** `bench json`: reading and editing bodies as bytes, beside trees and beside a loop over the bytes. */
export function benchJson(): void {
  const rows = cases().map(({ name, ours, besideName, beside, target }) => {
    const [own, other]: [number[], number[]] = [[], []];
    for (let round = 0; round <= rounds; round++) {
      const [a, b] = [timed(ours), timed(beside)];
      // The first round warms up the compiler.
      if (round > 0) {
        own.push(a);
        other.push(b);
      }
    }
    const ratio = median(own.map((ms, i) => ms / (other[i] ?? NaN)));
    const figures = [median(own), median(other)].map((ms) => ms.toFixed(3));
    const [ms = '', besideMs = ''] = figures;
    return [name, ms, besideMs, ratio.toFixed(2), target, besideName];
  });
  printTable(['case', 'ms', 'beside ms', 'ratio', 'target', 'beside'], rows);
}
