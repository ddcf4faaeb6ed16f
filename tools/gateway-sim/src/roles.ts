/** The three phases, which are the EPP's profile names, verbatim and case-sensitive. */
export const profiles = ['encode', 'prefill', 'decode'] as const;

/** A scheduling profile. */
export type Profile = (typeof profiles)[number];

/** Pod label that names a role. */
export const roleLabel = 'llm-d.ai/role';

const roles: Readonly<Record<Profile, readonly string[]>> = {
  encode: ['encode', 'encode-prefill', 'encode-prefill-decode'],
  prefill: ['prefill', 'encode-prefill', 'prefill-decode', 'both', 'encode-prefill-decode'],
  decode: ['decode', 'prefill-decode', 'both', 'encode-prefill-decode'],
};

/** True for a name that a profile has. */
export const isProfile = (name: string): name is Profile =>
  (profiles as readonly string[]).includes(name);

/** Whether a pod may serve a profile (deploy.md 1.6). A pod without the label serves none. */
export const acceptsProfile = (
  labels: Readonly<Record<string, string>>,
  profile: Profile,
): boolean => roles[profile].includes(labels[roleLabel] ?? '');
