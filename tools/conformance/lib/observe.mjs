/** Turns what happened in a case into a plain value that can be stored and compared. */
import { bodyBytes } from './client.mjs';
import { roleOf } from './fake.mjs';
import { canonical, equal, readTree } from './json.mjs';

const ownedByTransport = [
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'keep-alive',
];
const always = ['content-type', 'x-request-id', 'prefer', 'epp-profile'];
const uuidPattern = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

export const namesOf = (headers = {}) => Object.keys(headers).map((name) => name.toLowerCase());

export function parseOrUndefined(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function clientBody(testCase) {
  const body = parseOrUndefined(bodyBytes(testCase.request)?.toString('utf8'));
  return typeof body === 'object' && body !== null && !Array.isArray(body) ? body : undefined;
}

function watchedHeaders(testCase, headers, ignored) {
  const names = new Set([
    ...always,
    ...namesOf(testCase.request.headers),
    ...namesOf(headers).filter((name) => name.startsWith('x-')),
  ]);
  const out = {};
  for (const name of [...names].sort()) {
    if (!ownedByTransport.includes(name) && !ignored.includes(name) && headers[name] !== undefined)
      out[name] = headers[name];
  }
  return out;
}

export function observe(
  testCase,
  calls,
  result,
  { watchMedia, ignored = [], keepErrorText = false },
) {
  const seen = calls
    .filter((call) => watchMedia || call.service !== 'media')
    .map((call) => {
      const body = parseOrUndefined(call.text);
      return {
        role: roleOf(call),
        method: call.method === 'POST' ? undefined : call.method,
        path: call.path,
        headers: watchedHeaders(testCase, call.headers, ignored),
        body,
        text: body === undefined && call.text !== '' ? call.text : undefined,
        cut: call.cut ? true : undefined,
      };
    });
  const response = { status: result.status, ended: result.ended };
  if (result.ended === 'left')
    return finishUp({ calls: sortConcurrent(seen), response: { ended: 'left' } }, testCase);
  if (result.status !== undefined) {
    response.origin = result.headers['x-fake-origin'] ? 'worker' : 'coordinator';
    response.headers = {};
    for (const name of [
      'content-type',
      'allow',
      'retry-after',
      'location',
      ...(testCase.watch ?? []),
    ]) {
      if (result.headers[name] !== undefined) response.headers[name] = result.headers[name];
    }
    const text = result.body.toString('utf8');
    if (Buffer.from(text).equals(result.body)) response.text = text;
    else response.base64 = result.body.toString('base64');
    // Of an error of the coordinator itself the facts count, not the words.
    if (response.origin === 'coordinator' && result.status >= 400 && !keepErrorText) {
      delete response.text;
      response.tells =
        text === ''
          ? []
          : {
              request_id: /request_id: ([^)\s]+)/.exec(text)?.[1],
              step: /^(\S+) rejected/.exec(text)?.[1],
            };
    }
    const last = calls.at(-1);
    if (testCase.check?.includes('flushed')) {
      response.flushed =
        result.firstPieceAt !== undefined && result.firstPieceAt < last.lastPieceAt;
    }
  }
  return finishUp({ calls: sortConcurrent(seen), response }, testCase);
}

/** Calls that run at once have no order: neighbours of the same role are sorted. */
function sortConcurrent(calls) {
  const out = [];
  for (let i = 0; i < calls.length;) {
    let end = i + 1;
    const isConcurrent = calls[i].role === 'encode' || calls[i].role === 'media';
    while (isConcurrent && end < calls.length && calls[end].role === calls[i].role) end++;
    out.push(
      ...calls
        .slice(i, end)
        .sort((a, b) => (canonical([a.path, a.body]) < canonical([b.path, b.body]) ? -1 : 1)),
    );
    i = end;
  }
  return out;
}

/** Generated ids become `<uuid:1>`, `<uuid:2>` … in order of appearance; ids that the client sent stay. */
function finishUp(observed, testCase) {
  const sent = new Set(JSON.stringify(testCase.request).match(uuidPattern) ?? []);
  const numbers = new Map();
  const replace = (text) =>
    text.replaceAll(uuidPattern, (id) => {
      if (sent.has(id)) return id;
      if (!numbers.has(id)) numbers.set(id, numbers.size + 1);
      return `<uuid:${numbers.get(id)}>`;
    });
  const walk = (value) => {
    if (typeof value === 'string') return replace(value);
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([, v]) => v !== undefined)
        .map(([k, v]) => [k, walk(v)]),
    );
  };
  return walk(observed);
}

/** Stores a body as edits of the client's body where that is shorter. */
export function compress(observed, testCase) {
  const client = clientBody(testCase);
  const calls = observed.calls.map((call) => {
    const { body, ...rest } = call;
    if (body === undefined) return call;
    if (client === undefined || typeof body !== 'object' || Array.isArray(body)) return call;
    const set = {};
    for (const [key, value] of Object.entries(body))
      if (!Object.hasOwn(client, key) || !equal(client[key], value)) set[key] = value;
    const drop = Object.keys(client).filter((key) => !Object.hasOwn(body, key));
    const edits = { ...(Object.keys(set).length ? { set } : {}), ...(drop.length ? { drop } : {}) };
    return JSON.stringify(edits).length < JSON.stringify(body).length ? { ...rest, edits } : call;
  });
  return { calls, response: observed.response };
}

export function expand(recorded, testCase) {
  const client = clientBody(testCase);
  const calls = (recorded.calls ?? []).map((call) => {
    const { edits, ...rest } = structuredClone(call);
    if (edits === undefined) return rest;
    const body = { ...client, ...edits.set };
    for (const key of edits.drop ?? []) delete body[key];
    return { ...rest, body };
  });
  return { calls, response: structuredClone(recorded.response) };
}

export const treeOf = (text) => {
  try {
    return readTree(text);
  } catch {
    return undefined;
  }
};
