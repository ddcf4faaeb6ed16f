import { z } from 'zod';

/** How the 412 gate decides (deploy.md 1.8): newer decider, pinned tree, no gate plugin, no EPP. */
export const gateModes = ['decider', 'legacy', 'always412', 'off'] as const;

/** One gate mode. */
export type GateMode = (typeof gateModes)[number];

/** One pod, in the schema of the EPP's file discovery; host names are accepted too. */
export const endpointSchema = z.object({
  name: z.string().min(1),
  namespace: z.string().optional(),
  address: z.string().min(1),
  port: z.coerce.number().int().min(1).max(65_535),
  labels: z.record(z.string(), z.string()).prefault({}),
});

/** One pod as listed. */
export type EndpointSpec = z.output<typeof endpointSchema>;

const whole = z.coerce.number().int().min(0);
const port = z.coerce.number().int().min(0).max(65_535);
const flag = z.union([z.boolean(), z.stringbool()]);

/** All options of a gateway; the README has the table. */
export const gatewaySchema = z.strictObject({
  host: z.string().prefault('127.0.0.1'),
  publicPort: port.prefault(0),
  internalPort: port.prefault(0),
  adminPort: port.prefault(0),
  /** Base URLs of coordinators with commas between them, which take turns; without one the public listener answers 503. */
  coordinator: z
    .string()
    .refine((text) => text.split(',').every((url) => URL.canParse(url)), 'expected URLs')
    .optional(),
  endpoints: z.array(endpointSchema).prefault([]),
  gate: z.enum(gateModes).prefault('decider'),
  noncachedTokens: whole.prefault(256),
  promptTokens: whole.prefault(128),
  blockSize: z.coerce.number().int().min(1).prefault(64),
  /** Blocks remembered per pod. */
  indexBlocks: z.coerce.number().int().min(1).prefault(31_250),
  /** What an internal call without `EPP-Profile` gets: 404, or the decode profile. */
  missingProfile: z.enum(['refuse', 'default']).prefault('refuse'),
  /** What an internal call without a body gets: any pod, as from the real EPP, or 404. */
  bodyless: z.enum(['random', 'refuse']).prefault('random'),
  /** One listener for clients and phases, upstream's topology: the header decides. */
  singleListener: flag.prefault(false),
  /** Shows score, gate and pick in `x-sim-pick`. */
  debug: flag.prefault(false),
  seed: whole.prefault(0),
  bodyLimitMb: z.coerce.number().int().min(1).prefault(64),
  healthIntervalMs: z.coerce.number().int().min(1).prefault(2000),
  /** How long a pod that refused a connection is left out. */
  ejectMs: whole.prefault(5000),
});

/** All options, after defaults. */
export type GatewayConfig = z.output<typeof gatewaySchema>;

/** Options as a test or another tool hands them in. */
export type GatewayOptions = z.input<typeof gatewaySchema>;
