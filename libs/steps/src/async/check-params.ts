import { type AsyncBrokerParams } from './params.ts';

/** Names a priority band; the last two are what routers still accept. */
export const objectiveHeaders = ['x-llm-d-inference-objective', 'x-gateway-inference-objective'];
/** Names whom a router is to be fair to. */
export const fairnessHeaders = ['x-llm-d-inference-fairness-id', 'x-gateway-inference-fairness-id'];

/** Set anew for each dispatch, or with a meaning for one hop alone (2.4). */
const neverForwarded = [
  ...['x-request-id', 'host', 'content-length', 'content-type', 'transfer-encoding', 'connection'],
  ...['te', 'upgrade', 'epp-profile', ...objectiveHeaders, ...fairnessHeaders],
];

/** Throws an Error that names the parameter when parameters do not fit together. */
export function checkParams(params: AsyncBrokerParams): void {
  checkHeaders(params);
  checkObjectives(params);
}

function checkHeaders(params: AsyncBrokerParams): void {
  const own = {
    mode_header: params.mode_header,
    tenant_header: params.tenant_header,
    timeout_header: params.timeout_header,
  };
  const owners = new Map<string, string>();
  for (const [key, names] of Object.entries(own)) {
    if (names.length === 0) throw new Error(`${key}: expected at least one header name`);
    for (const name of names) {
      const owner = owners.get(name);
      if (owner) throw new Error(`${key}: ${name} is a ${owner} already`);
      owners.set(name, key);
    }
  }
  const banned = new Set([...owners.keys(), ...defaultHeaders, ...neverForwarded]);
  if (!params.allow_authorization) banned.add('authorization');
  for (const name of params.forward_headers) {
    if (banned.has(name)) throw new Error(`forward_headers: ${name} may not be forwarded`);
  }
}

/** Names of both generations, whatever is configured: none of them may reach a dispatch. */
const defaultHeaders = [
  ...['x-llm-d-async-mode', 'x-ap-mode', 'x-llm-d-tenant', 'x-team'],
  ...['x-llm-d-request-timeout-seconds', 'x-request-timeout-seconds'],
];

/** With the reserved objective below the other one a quota would turn into its contrary. */
function checkObjectives({ objectives, priorities }: AsyncBrokerParams): void {
  for (const [tier, { reserved, overflow }] of Object.entries(objectives)) {
    const [high, low] = [priorities[reserved], priorities[overflow]];
    if (high === undefined || low === undefined || high > low) continue;
    throw new Error(
      `objectives: ${tier}: expected ${reserved} (priority ${high}) to outrank ${overflow} (priority ${low})`,
    );
  }
}
