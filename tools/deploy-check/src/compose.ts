import { z } from 'zod';
import { yamlOf } from './deploy-files.ts';

const networkSchema = z.looseObject({
  aliases: z.array(z.string()).prefault([]),
  ipv4_address: z.string().optional(),
});

const serviceSchema = z.looseObject({
  profiles: z.array(z.string()).prefault([]),
  image: z.string(),
  build: z
    .object({ context: z.string(), dockerfile: z.string(), args: z.object({ APP: z.string() }) })
    .optional(),
  command: z.array(z.string()).prefault([]),
  environment: z.record(z.string(), z.string()).prefault({}),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).prefault({}),
  ports: z.array(z.string()).prefault([]),
  volumes: z.array(z.string()).prefault([]),
  configs: z.array(z.object({ source: z.string(), target: z.string() })).prefault([]),
  networks: z
    .union([
      z
        .array(z.string())
        .transform((names) =>
          Object.fromEntries(names.map((name) => [name, networkSchema.parse({})])),
        ),
      z.record(z.string(), networkSchema),
    ])
    .prefault([]),
  healthcheck: z.looseObject({ test: z.array(z.string()) }).optional(),
  cap_drop: z.array(z.string()).optional(),
  security_opt: z.array(z.string()).optional(),
  privileged: z.boolean().optional(),
});

const composeSchema = z.looseObject({
  services: z.record(z.string(), serviceSchema),
  networks: z.record(z.string(), z.unknown()),
  volumes: z.record(z.string(), z.unknown()),
  configs: z.record(z.string(), z.object({ file: z.string() })),
});

/** One service of it. */
export type Service = z.output<typeof serviceSchema>;

/** docker-compose.yml as far as it is looked at, with lists and mappings in one form. */
export const compose = composeSchema.parse(yamlOf('docker-compose.yml'));

/** Its services by name. */
export const services = Object.entries(compose.services);

/** One of them. @throws Error when there is none of that name */
export function service(name: string): Service {
  const found = compose.services[name];
  if (!found) throw new Error(`no service ${name}`);
  return found;
}
