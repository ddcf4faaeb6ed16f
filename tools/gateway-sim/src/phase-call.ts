import { type IncomingMessage, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { type Agent } from 'undici';
import { type Endpoint, type EndpointTable } from './endpoints.ts';
import { answerText, forward } from './forward.ts';
import { type GateRules, opensGate, prefersIfAvailable } from './gate.ts';
import { firstValue, headersWithout } from './headers.ts';
import { type Leg } from './leg-log.ts';
import { type GatewayConfig } from './options.ts';
import { isReservation, pinnedTo, reservedHeader } from './pin.ts';
import { pickPod } from './picker.ts';
import { type PrefixIndex } from './prefix-index.ts';
import { BadInferenceBody, promptBlocks, type PromptBlocks } from './prompt-blocks.ts';
import { BodyTooLarge, type Chunks, readChunks } from './read-chunks.ts';
import { acceptsProfile, isProfile, type Profile } from './roles.ts';

/** What all phase calls share. */
export interface PhaseContext {
  config: GatewayConfig;
  agent: Agent;
  table: EndpointTable;
  index: PrefixIndex;
  random: () => number;
}

const megabyte = 1024 * 1024;

/** Bodies above this are not parsed for prefix matching; they are routed by load alone. */
const pickBytes = 8 * megabyte;

const droppedReason = 'x-llm-d-request-dropped-reason';

/**
 * One call of a phase: picks a pod by profile, load and prefix, asks the 412 gate, forwards. Answers
 * what Envoy and the EPP answer (gateway-verified.md 2, 3 and 5) when there is no pod to ask.
 */
export async function servePhase(
  context: PhaseContext,
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
): Promise<void> {
  const { config } = context;
  const header = firstValue(request.headers['epp-profile']);
  if (header === undefined && config.missingProfile === 'refuse') {
    answerText(request, response, leg, 404, '');
    return;
  }
  // A blank value counts as present and means the default profile.
  const name = header === undefined || header.trim() === '' ? 'decode' : header;
  let body: Chunks;
  try {
    body = await readChunks(request, config.bodyLimitMb * megabyte);
  } catch (error) {
    if (error instanceof BodyTooLarge) answerText(request, response, leg, 413, 'Payload Too Large');
    else leg.flags = 'DC';
    return;
  }
  leg.bytes_received = body.bytes;
  if (body.bytes === 0) {
    await serveBodyless(context, request, response, leg);
    return;
  }
  if (!isProfile(name)) {
    answerText(
      request,
      response,
      leg,
      429,
      'inference error: ResourceExhausted - failed to find target endpoint: ' +
        `failed to run any scheduler profile for request ${leg.request_id}`,
    );
    return;
  }
  const prompt = readPrompt(context, request, response, leg, body);
  if (!prompt) return;
  const endpoint = choose(context, request, response, leg, name, prompt);
  if (endpoint && isReservation(firstValue(request.headers['prefer']))) {
    answerText(request, response, leg, 204, '', { [reservedHeader]: endpoint.authority });
    return;
  }
  if (endpoint) await send(context, request, response, leg, { endpoint, body, prompt });
}

/** The prompt in blocks; undefined when the call was answered with 400. */
function readPrompt(
  { config }: PhaseContext,
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
  body: Chunks,
): PromptBlocks | undefined {
  const unparsed = { tokens: Math.ceil(body.bytes / 4), blocks: [], partial: undefined };
  const [path = '/'] = (request.url ?? '/').split('?');
  const api = path.replace(/\/$/, '');
  // Paths of no parser pass, as with an EPP that has no parser list.
  if (!/\/(chat\/completions|completions|generate)$/.test(api) || body.bytes > pickBytes) {
    return unparsed;
  }
  try {
    const text = Buffer.concat(body.chunks, body.bytes).toString('utf8');
    return promptBlocks(api, JSON.parse(text), config.blockSize);
  } catch (error) {
    const reason = error instanceof BadInferenceBody ? error.message : 'invalid JSON';
    answerText(request, response, leg, 400, `inference error: BadRequest - ${reason}`);
    return undefined;
  }
}

/** Picks and asks the gate; undefined when the call was answered with 429, 503 or 412. */
function choose(
  { config, table, index, random }: PhaseContext,
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
  profile: Profile,
  prompt: PromptBlocks,
): Endpoint | undefined {
  const all = table.usable().filter(({ spec }) => acceptsProfile(spec.labels, profile));
  const pin = profile === 'prefill' ? pinnedTo(request.headers) : undefined;
  const candidates = pin === undefined ? all : all.filter(({ authority }) => authority === pin);
  if (pin !== undefined && candidates.length === 0) {
    answerText(
      request,
      response,
      leg,
      503,
      'inference error: ServiceUnavailable - the pinned endpoint is not available',
    );
    return undefined;
  }
  const matches = new Map(candidates.map((pod) => [pod, index.match(pod.name, prompt)]));
  for (const [pod, match] of matches) pod.matchedBlocks = match.blocks;
  const picked = pickPod(profile, candidates, prompt.blocks.length, random);
  if (!picked) {
    answerNoPod(table, request, response, leg);
    return undefined;
  }
  const { pod } = picked;
  const match = matches.get(pod) ?? { blocks: 0, isWhole: false };
  leg.pod = pod.name;
  leg.upstream = pod.authority;
  leg.prompt_tokens = prompt.tokens;
  leg.matched_blocks = match.blocks;
  leg.total_blocks = prompt.blocks.length;
  leg.score = picked.score;
  leg.sticky = picked.isSticky;
  // The gate does not look at the profile: a client's own Prefer stops prefill and encode as well.
  if (!prefersIfAvailable(firstValue(request.headers['prefer']))) return pod;
  const rules: GateRules = { ...config, mode: config.gate };
  leg.gate = opensGate(rules, prompt, match) ? 'open' : '412';
  if (leg.gate === 'open') return pod;
  answerText(
    request,
    response,
    leg,
    412,
    'inference error: PreconditionFailed - no decode worker has the requested KV cache',
  );
  return undefined;
}

function answerNoPod(
  table: EndpointTable,
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
): void {
  if (table.usable().length === 0) {
    answerText(
      request,
      response,
      leg,
      503,
      'inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request',
      { [droppedReason]: 'rejected-no-endpoints' },
    );
    return;
  }
  answerText(
    request,
    response,
    leg,
    429,
    'inference error: ResourceExhausted - no endpoints available for the given request',
    { [droppedReason]: 'rejected-saturated' },
  );
}

async function serveBodyless(
  context: PhaseContext,
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
): Promise<void> {
  const { config, table, random } = context;
  if (config.bodyless === 'refuse') {
    answerText(request, response, leg, 404, '');
    return;
  }
  const usable = table.usable();
  const endpoint = usable[Math.floor(random() * usable.length)];
  if (!endpoint) {
    answerText(
      request,
      response,
      leg,
      500,
      'inference error: Internal - no pods available in datastore',
    );
    return;
  }
  leg.pod = endpoint.name;
  leg.upstream = endpoint.authority;
  await send(context, request, response, leg, { endpoint, body: undefined, prompt: undefined });
}

interface Sending {
  endpoint: Endpoint;
  body: Chunks | undefined;
  prompt: PromptBlocks | undefined;
}

async function send(
  { config, agent, table, index }: PhaseContext,
  request: IncomingMessage,
  response: ServerResponse,
  leg: Leg,
  { endpoint, body, prompt }: Sending,
): Promise<void> {
  // Only the pinned tree believes that a failed decode has warmed its pod.
  if (prompt && config.gate === 'legacy') index.record(endpoint.name, prompt);
  const tokens = prompt?.tokens ?? 0;
  endpoint.activeRequests += 1;
  endpoint.inflightTokens += tokens;
  try {
    const result = await forward(
      agent,
      request,
      response,
      {
        origin: `http://${endpoint.authority}`,
        headers: {
          // A pod behind the EPP sees chunked bodies only.
          ...headersWithout(request.headers, ['content-length']),
          'x-gateway-destination-endpoint': endpoint.authority,
          'x-request-id': leg.request_id,
        },
        body: body ? Readable.from(body.chunks, { objectMode: false }) : null,
        answerHeaders: config.debug ? { 'x-sim-pick': pickText(leg) } : {},
      },
      leg,
    );
    if (result === 'connect-failed') table.eject(endpoint);
    if (prompt && result === 'answered' && leg.status < 400) index.record(endpoint.name, prompt);
  } finally {
    endpoint.activeRequests -= 1;
    endpoint.inflightTokens -= tokens;
  }
}

const pickText = (leg: Leg): string =>
  `pod=${leg.pod ?? ''};score=${leg.score ?? ''};sticky=${String(leg.sticky ?? false)};` +
  `matched=${leg.matched_blocks ?? 0}/${leg.total_blocks ?? 0};gate=${leg.gate ?? 'none'}`;
