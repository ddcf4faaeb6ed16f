/**
 * Where this project differs from the recorded original on purpose, everywhere.
 * A rule turns the recorded expectation into ours; what concerns one case only stands in that case under `ours`.
 */
import { canonical, changedBytes, clip, equal, member } from './json.mjs';
import { clientBody, treeOf } from './observe.mjs';

const chat = '/v1/chat/completions';
const generate = '/inference/v1/generate';
const validId = /^[A-Za-z0-9-]{1,128}$/;
const has = (object, key) => object !== undefined && object !== null && Object.hasOwn(object, key);
const isLeg = (call, ...roles) => roles.includes(call.role);

const rules = [
  {
    id: 'batches',
    why: 'Several prompts of a completions request are served, each through all steps, with the choice indexes of OpenAI; the recorded version refused them, or gave the list to one leg.',
    adapt(expected, { client, path, script }) {
      const prompts = path === '/v1/completions' ? batchOf(client?.prompt) : undefined;
      if (!prompts) return;
      const samples = client.n ?? 1;
      expected.calls = { $any: true };
      // Generated scripts answer with what is no completion: nothing can be made of it.
      if (script?.decode || script?.conditional) expected.response = { $any: true };
      else
        expected.response = {
          status: 200,
          ended: 'complete',
          origin: 'worker',
          headers: { 'content-type': { $any: true } },
          text: { $contains: prompts.map((_, index) => `"index":${index * samples},`) },
        };
    },
  },
  {
    id: 'openai-errors',
    why: 'Errors of our own are OpenAI-shaped JSON with a stable code and the request id, not plain text or an empty body.',
    adapt({ response }) {
      const { tells } = response;
      delete response.tells;
      if (response.origin !== 'coordinator' || !(response.status >= 400)) return;
      const isFree = response.status === 405;
      if (!isFree) response.error = { id: tells?.request_id, step: tells?.step };
      response.headers = {
        ...response.headers,
        'content-type': isFree ? { $any: true } : { $regex: '^application/json' },
      };
    },
  },
  {
    id: 'overload-stays-overload',
    why: "A leg's 503 reaches the client as 503 (with its Retry-After), so that an overload does not look like a broken gateway; other 5xx are 502.",
    adapt({ response }, { script }) {
      const answers = ['render', 'encode', 'prefill', 'reserve'].flatMap(
        (role) => script?.[role] ?? [],
      );
      if (response.status === 502 && answers.some(({ status }) => status === 503))
        response.status = 503;
    },
  },
  {
    id: 'media-again',
    why: 'A download that failed for a reason that may pass (408, 425, 429, 5xx, a body that breaks off) is tried once more.',
    adapt({ calls }, { script }) {
      if (!Array.isArray(calls)) return;
      const mayPass = ({ status, chunks } = {}) =>
        [408, 425, 429].includes(status) ||
        status >= 500 ||
        (Array.isArray(chunks) && chunks.some((piece) => piece.close));
      const index = calls.findIndex(
        ({ role, path }) => role === 'media' && mayPass(script?.media?.[path]),
      );
      if (index !== -1) calls.splice(index, 0, structuredClone(calls[index]));
    },
  },
  {
    id: 'both-caps',
    why: 'Synthetic chat legs carry max_tokens and max_completion_tokens, both 1, whatever the client sent.',
    adapt({ calls }) {
      for (const call of calls) {
        if (isLeg(call, 'encode', 'prefill', 'reserve') && call.path === chat && call.body)
          call.body.max_completion_tokens = 1;
      }
    },
  },
  {
    id: 'own-part',
    why: "Encode legs carry the client's own media part, model and processor arguments unchanged, so that the media hash stays the same.",
    adapt({ calls }, { client }) {
      const parts = (Array.isArray(client?.messages) ? client.messages : [])
        .flatMap((message) => (Array.isArray(message?.content) ? message.content : []))
        .filter((part) => part?.type === 'image_url');
      const used = new Set();
      for (const call of calls) {
        if (!isLeg(call, 'encode') || call.path !== chat) continue;
        const sent = call.body.messages[0].content[0].image_url;
        const withoutUrl = ({ url, ...rest }) => rest;
        const index = parts.findIndex((part, at) => !used.has(at) && equal(part.image_url, sent));
        const downloaded = parts.findIndex(
          (part, at) =>
            !used.has(at) &&
            !String(part.image_url?.url).startsWith('data:') &&
            equal(withoutUrl(part.image_url ?? {}), withoutUrl(sent ?? {})),
        );
        const found = index >= 0 ? index : downloaded;
        if (found >= 0) {
          used.add(found);
          call.body.messages[0].content[0] = { ...parts[found], image_url: sent };
        }
        if (has(client, 'model')) call.body.model = client.model;
        else delete call.body.model;
        for (const key of ['mm_processor_kwargs', 'media_io_kwargs'])
          if (has(client, key)) call.body[key] = client[key];
      }
    },
  },
  {
    id: 'equal-items-once',
    why: 'Equal media items of one request are encoded once.',
    adapt(expected) {
      const seen = new Set();
      expected.calls = expected.calls.filter((call) => {
        if (!isLeg(call, 'encode')) return true;
        const key = canonical([call.path, call.body]);
        return !seen.has(key) && seen.add(key);
      });
    },
  },
  {
    id: 'decode-speaks-the-client-api',
    why: 'A chat decode leg carries kv_transfer_params at the top level even when the other legs speak tokens-in; below sampling_params a chat worker never reads them.',
    adapt({ calls }, { config, client }) {
      if (config.pipeline.use_openai_format !== false) return;
      for (const call of calls) {
        const extra = call.body?.sampling_params?.extra_args;
        if (!isLeg(call, 'decode') || call.path !== chat || !has(extra, 'kv_transfer_params'))
          continue;
        call.body.kv_transfer_params = extra.kv_transfer_params;
        restoreSampling(call.body, client);
      }
    },
  },
  {
    id: 'wire',
    why: 'The newest wire has no `tokens` object in chat bodies and carries transfer params at the top level of generate bodies; pipeline.wire switches back.',
    adapt({ calls }, { config, client }) {
      const { chat_tokens: chatTokens, generate_transfer_params: place } = config.pipeline.wire;
      for (const { role, path, body } of calls) {
        if (role === 'render' || body === undefined || body === null) continue;
        if (path === chat && has(body, 'tokens') && !equal(body.tokens, client?.tokens)) {
          if (!chatTokens) restore(body, client, 'tokens');
          else if (body.tokens.token_ids === null) body.tokens = { $optional: body.tokens };
        }
        if (path === generate && place === 'top-level' && body.sampling_params?.extra_args) {
          const { kv_transfer_params: kv, ec_transfer_params: ec } =
            body.sampling_params.extra_args;
          if (kv !== undefined) body.kv_transfer_params = kv;
          if (ec !== undefined) body.ec_transfer_params = ec;
          if (role === 'prefill') delete body.sampling_params.extra_args;
          else restoreSampling(body, client);
        }
      }
    },
  },
  {
    id: 'no-client-params',
    why: 'Transfer params of the client never reach a leg: they name hosts that a worker would contact, and a malformed set ends a real worker.',
    adapt({ calls }, { client }) {
      for (const key of ['kv_transfer_params', 'ec_transfer_params']) {
        if (!has(client, key)) continue;
        for (const { role, body } of calls) {
          if (role === 'render') body[key] = { $optional: { $any: true } };
          else if (has(body, key) && equal(body[key], client[key])) delete body[key];
        }
      }
    },
  },
  {
    id: 'whole-hand-offs-only',
    why: 'Under kv-nixl a decode leg carries kv_transfer_params only when prefill answered a complete set; a real decode pod ends on do_remote_prefill without blocks.',
    adapt({ calls }, { config, client, env }) {
      const own = config.pipeline.steps?.find?.(({ type }) => type === 'decode')?.params
        ?.kv_connector;
      if (
        (own ?? env?.COORDINATOR_PIPELINE_KV_CONNECTOR ?? config.pipeline.kv_connector) !==
        'kv-nixl'
      )
        return;
      const needed = [
        'remote_block_ids',
        'remote_engine_id',
        'remote_request_id',
        'remote_host',
        'remote_port',
      ];
      for (const { role, body } of calls) {
        if (role !== 'decode' || !body) continue;
        const place = has(body, 'kv_transfer_params') ? body : body.sampling_params?.extra_args;
        const params = place?.kv_transfer_params;
        if (params?.do_remote_prefill !== true || needed.every((key) => params[key])) continue;
        // A set with some fields of its own may pass or not; one with the flags alone must not.
        if (Object.keys(params).length > 2) place.kv_transfer_params = { $optional: params };
        else if (place === body) delete body.kv_transfer_params;
        else restoreSampling(body, client);
      }
    },
  },
  {
    id: 'one-sequence',
    why: 'A prefill leg may ask for one sequence where the client asked for several.',
    adapt({ calls }) {
      for (const call of calls) {
        if (!isLeg(call, 'prefill') || !call.body) continue;
        for (const key of ['n', 'best_of'])
          if (has(call.body, key)) call.body[key] = { $optional: { $oneOf: [call.body[key], 1] } };
      }
    },
  },
  {
    id: 'no-empty-uuid',
    why: 'A media part whose hash is not known gets no `uuid`; an empty one would be taken for a cache key.',
    adapt({ calls }, { client }) {
      for (const call of calls) {
        if (!isLeg(call, 'decode') || call.path !== chat) continue;
        call.body.messages?.forEach?.((message, m) => {
          message?.content?.forEach?.((part, p) => {
            if (part?.uuid === '') restore(part, client.messages[m].content[p], 'uuid');
          });
        });
      }
    },
  },
  {
    id: 'headers',
    why: "Control headers of the client (`prefer`, phase) never reach a leg, `accept-encoding` never a leg whose JSON is read here; repeated headers keep all values; render gets the request's own id.",
    adapt({ calls, response }, { requestHeaders }) {
      const named = Object.entries(requestHeaders);
      const connection = named.find(([name]) => name.toLowerCase() === 'connection')?.[1] ?? '';
      const nominated = String(connection)
        .toLowerCase()
        .split(/\s*,\s*/);
      const given = named.find(([name]) => name.toLowerCase() === 'x-request-id')?.[1];
      const id =
        calls.find((call) => call.role !== 'render' && call.headers['x-request-id'])?.headers[
          'x-request-id'
        ] ??
        response.tells?.request_id ??
        (validId.test(given ?? '') ? given : '<uuid:1>');
      for (const call of calls) {
        if (call.role === 'media') continue;
        for (const [name, value] of named) {
          const key = name.toLowerCase();
          if (Array.isArray(value) && has(call.headers, key)) call.headers[key] = value.join(', ');
        }
        for (const name of ['expect', 'content-encoding', ...ownHeaders, ...nominated])
          delete call.headers[name];
        if (call.role !== 'conditional') delete call.headers.prefer;
        if (isLeg(call, 'render', 'encode', 'prefill')) delete call.headers['accept-encoding'];
        if (call.role === 'render') call.headers['x-request-id'] = id;
      }
    },
  },
];

/** The prompts of a list that is no list of token ids, when all of them can be served. */
function batchOf(prompt) {
  const isText = (item) => typeof item === 'string' && item !== '';
  const isIds = (item) => Array.isArray(item) && item.length > 0 && item.every(Number.isInteger);
  if (!Array.isArray(prompt) || prompt.length === 0) return undefined;
  return prompt.every(isText) || prompt.every(isIds) ? prompt : undefined;
}

function restore(body, client, key) {
  if (has(client, key)) body[key] = client[key];
  else delete body[key];
}

/** Takes the transfer params out again and leaves `sampling_params` as the client sent it. */
function restoreSampling(body, client) {
  const {
    kv_transfer_params: _kv,
    ec_transfer_params: _ec,
    ...extra
  } = body.sampling_params.extra_args;
  // The client's own transfer params stay out here too (no-client-params): engines read them at this place as well.
  const {
    kv_transfer_params: _ownKv,
    ec_transfer_params: _ownEc,
    ...own
  } = client?.sampling_params?.extra_args ?? extra;
  if (Object.keys(extra).length > 0 || has(client?.sampling_params, 'extra_args'))
    body.sampling_params.extra_args = own;
  else delete body.sampling_params.extra_args;
  if (Object.keys(body.sampling_params).length === 0) restore(body, client, 'sampling_params');
}

export const ruleTexts = rules.map(({ id, why }) => ({ id, why }));

/** The expectation for this project, made from the recorded one. */
export function adaptToOurs(expected, testCase, config) {
  const context = {
    config,
    client: clientBody(testCase),
    path: testCase.request.path,
    requestHeaders: testCase.request.headers ?? {},
    script: testCase.script,
    env: testCase.env,
  };
  // The headers rule reads the id from the recorded error text, so it goes first.
  for (const rule of [...rules].reverse()) rule.adapt(expected, context);
  return expected;
}

/** Applies what one case says under `ours`. */
export function applyCasePatch(expected, ours = {}) {
  if (ours.response) {
    const { headers, ...rest } = ours.response;
    Object.assign(expected.response, rest);
    if (headers) expected.response.headers = { ...expected.response.headers, ...headers };
    if ('text' in rest || 'json' in rest) delete expected.response.error;
    if ('error' in rest) {
      delete expected.response.text;
      expected.response.origin = 'coordinator';
      expected.response.headers = { 'content-type': { $regex: '^application/json' } };
    }
    if ('json' in rest) delete expected.response.text;
  }
  if (ours.calls !== undefined) expected.calls = structuredClone(ours.calls);
  if (ours.drop_calls)
    expected.calls = expected.calls.filter((call) => !ours.drop_calls.includes(call.role));
  for (const patch of ours.edit ?? []) {
    for (const call of expected.calls.filter((candidate) => candidate.role === patch.at)) {
      Object.assign((call.body ??= {}), patch.set);
      for (const key of patch.drop ?? []) delete call.body[key];
      if (patch.messages) call.body.messages = patch.messages;
      Object.assign(call.headers, patch.headers);
      for (const key of patch.drop_headers ?? []) delete call.headers[key];
      if (patch.path) call.path = patch.path;
    }
  }
  return expected;
}

/** What can only be checked on the raw calls: bytes, ids, traces, leaks. */
export function extraChecks(testCase, rawCalls, result, requestText) {
  const lines = [];
  const sent = Object.fromEntries(
    Object.entries(testCase.request.headers ?? {}).map(([name, value]) => [
      name.toLowerCase(),
      value,
    ]),
  );
  const outgoing = rawCalls.filter((call) => call.service !== 'media');
  const decisions = new Set(outgoing.map((call) => call.headers['x-llm-d-revision-decision-id']));
  if (decisions.size > 1)
    lines.push(
      `x-llm-d-revision-decision-id: wanted one value on every call, got ${show([...decisions])}`,
    );
  if (outgoing.length > 0) {
    const [id] = decisions;
    if (!/^[0-9a-f-]{36}$/.test(id ?? ''))
      lines.push(`x-llm-d-revision-decision-id: wanted a UUID on every call, got ${id}`);
    else if (id === sent['x-llm-d-revision-decision-id'])
      lines.push("x-llm-d-revision-decision-id: the client's value must be replaced");
    else if (outgoing.some((call) => call.headers['x-request-id'] === id))
      lines.push('x-llm-d-revision-decision-id: must differ from the request id');
  }
  const trace = /^00-([0-9a-f]{32})-/.exec(sent.traceparent ?? '')?.[1];
  for (const call of outgoing) {
    if (trace && !String(call.headers.traceparent).includes(trace))
      lines.push(`${call.role ?? call.phase}: traceparent must keep the trace id ${trace}`);
  }
  if (result.status >= 400 && !result.headers['x-fake-origin'] && result.body.includes('SECRET'))
    lines.push('response: an upstream body reached the client');
  if (testCase.ours?.bytes !== false) lines.push(...byteChecks(rawCalls, requestText));
  return lines;
}

const show = (value) => clip(JSON.stringify(value));

function byteChecks(rawCalls, requestText) {
  const lines = [];
  const client = requestText === undefined ? undefined : treeOf(requestText);
  const answers = (phase) =>
    rawCalls
      .filter((call) => call.phase === phase && call.answer)
      .map((call) => treeOf(call.answer));
  const [prefill] = answers('prefill');
  for (const call of rawCalls) {
    const tree = treeOf(call.text);
    if (tree?.kind !== 'object') continue;
    const isDerived =
      call.service === 'render' ||
      call.phase === 'decode' ||
      (call.phase === 'prefill' && call.path === chat);
    const report = (found) =>
      lines.push(...found.map((line) => `${call.phase ?? call.service} bytes: ${line}`));
    if (isDerived && client?.kind === 'object') report(changedBytes(client, tree));
    if (call.phase === 'decode') {
      const kv =
        member(tree, 'kv_transfer_params') ??
        member(tree, 'sampling_params', 'extra_args', 'kv_transfer_params');
      for (const { key, node } of member(prefill, 'kv_transfer_params')?.members ?? []) {
        if (!['do_remote_decode', 'do_remote_prefill'].includes(key))
          report(changedBytes(node, member(kv, key), `kv_transfer_params.${key}`));
      }
    }
    if (call.phase === 'prefill') {
      const ec =
        member(tree, 'ec_transfer_params') ??
        member(tree, 'sampling_params', 'extra_args', 'ec_transfer_params');
      const given = ec
        ? answers('encode').flatMap((answer) => member(answer, 'ec_transfer_params')?.members ?? [])
        : [];
      for (const { key, node } of ec?.members ?? []) {
        const same = given.filter((candidate) => candidate.key === key);
        if (!same.some((candidate) => candidate.node.raw === node.raw))
          report(changedBytes(same[0]?.node, node, `ec_transfer_params.${key}`));
      }
    }
  }
  return lines;
}

/** Headers that we add to every call; `extraChecks` looks at them, the comparison does not. */
export const ownHeaders = ['x-llm-d-revision-decision-id', 'traceparent'];
