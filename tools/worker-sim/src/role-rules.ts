import { ApiError } from './api-error.ts';
import { type InferenceInput } from './inference-input.ts';
import { type Role, type WorkerConfig } from './options.ts';

/** The three phases, which are also the values of `EPP-Profile`. */
export type Phase = 'encode' | 'prefill' | 'decode';

/** Phases that a role can play (deploy.md 1.6). */
export const phasesOf: Readonly<Record<Role, readonly Phase[]>> = {
  encode: ['encode'],
  prefill: ['prefill'],
  decode: ['decode'],
  'encode-prefill': ['encode', 'prefill'],
  'prefill-decode': ['prefill', 'decode'],
  both: ['prefill', 'decode'],
  'encode-prefill-decode': ['encode', 'prefill', 'decode'],
};

/** A leg that no gateway or coordinator should have sent to this pod. */
export class RoleViolation extends ApiError {}

/** Throws a RoleViolation 421 when the gateway sent a leg of another phase here. */
export function checkProfile(role: Role, profile: string | undefined): void {
  if (profile === undefined || profile.trim() === '') return;
  const phases: readonly string[] = phasesOf[role];
  if (phases.includes(profile)) return;
  throw new RoleViolation(421, `EPP-Profile '${profile}' reached a pod whose role is '${role}'`);
}

/**
 * The phase this request plays here. A role with several phases decides by the header for encode and
 * by the transfer params for the others, as a real pod does.
 */
export function phaseOf(
  role: Role,
  input: InferenceInput,
  profile: string | undefined,
  hasImages: boolean,
): Phase {
  const phases = phasesOf[role];
  const [only] = phases;
  if (phases.length === 1 && only) return only;
  const kv = input.kvTransferParams;
  if (phases.includes('encode')) {
    if (profile === 'encode') return 'encode';
    if (!phases.includes('decode') && profile === undefined && !kv && hasImages) return 'encode';
  }
  if (kv?.['do_remote_decode'] === true) return 'prefill';
  if (input.bootstrap && profile === 'prefill') return 'prefill';
  return phases.includes('decode') ? 'decode' : 'prefill';
}

/** Throws a RoleViolation 400 for what a strict pod of one role must not get (deploy.md 2.3). */
export function checkRole(
  { role, kvConnector }: Pick<WorkerConfig, 'role' | 'kvConnector'>,
  phase: Phase,
  input: InferenceInput,
  hasImages: boolean,
): void {
  const violation = roleViolation({ role, kvConnector }, phase, input, hasImages);
  if (violation !== undefined) throw new RoleViolation(400, violation);
}

function roleViolation(
  { role, kvConnector }: Pick<WorkerConfig, 'role' | 'kvConnector'>,
  phase: Phase,
  input: InferenceInput,
  hasImages: boolean,
): string | undefined {
  const kv = input.kvTransferParams;
  const remoteDecode = kv?.['do_remote_decode'] === true;
  if (kvConnector === 'sglang' && phase !== 'encode') {
    if (kv) return `${phase} worker with SGLang received kv_transfer_params`;
    if (!input.bootstrap) return `${phase} worker with SGLang received no bootstrap members`;
  }
  switch (phase) {
    case 'encode':
      if (input.api === 'completions') return 'encoder-only worker does not serve completions';
      if (!hasImages) return 'encoder-only worker received a request without multimodal input';
      if (kv) return 'encoder-only worker received kv_transfer_params';
      return undefined;
    case 'prefill':
      if (!remoteDecode && kvConnector !== 'none' && kvConnector !== 'sglang') {
        return 'prefill worker received a request without kv_transfer_params.do_remote_decode';
      }
      if (input.isStreaming) return 'Prefill does not support streaming';
      if (input.maxTokens !== 1) return 'prefill expects max_tokens 1';
      return undefined;
    case 'decode':
      if (remoteDecode && role === 'decode') return 'decode worker received do_remote_decode';
      return undefined;
  }
}
