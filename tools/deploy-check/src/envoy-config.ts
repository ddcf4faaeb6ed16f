import { z } from 'zod';
import { yamlOf } from './deploy-files.ts';

const socketAddress = z.object({
  socket_address: z.object({ address: z.string(), port_value: z.number() }),
});

/** The parts of an Envoy configuration that are looked at; everything else stays as it is. */
const envoySchema = z.looseObject({
  admin: z.looseObject({ address: socketAddress }),
  static_resources: z.object({
    listeners: z.array(
      z.looseObject({
        name: z.string(),
        address: socketAddress,
        filter_chains: z.tuple([
          z.looseObject({
            filters: z.tuple([
              z.looseObject({
                typed_config: z.looseObject({
                  early_header_mutation_extensions: z
                    .tuple([
                      z.looseObject({
                        typed_config: z.looseObject({
                          mutations: z.array(z.object({ remove: z.string() })),
                        }),
                      }),
                    ])
                    .optional(),
                  stream_idle_timeout: z.string().optional(),
                  preserve_external_request_id: z.boolean().optional(),
                  request_id_extension: z.unknown().optional(),
                  route_config: z.looseObject({
                    virtual_hosts: z.tuple([
                      z.looseObject({
                        routes: z.array(
                          z.looseObject({
                            match: z.looseObject({}),
                            route: z
                              .looseObject({ cluster: z.string(), timeout: z.string() })
                              .optional(),
                          }),
                        ),
                      }),
                    ]),
                  }),
                }),
              }),
            ]),
          }),
        ]),
      }),
    ),
    clusters: z.array(
      z.looseObject({
        name: z.string(),
        type: z.string(),
        circuit_breakers: z.unknown().optional(),
        health_checks: z.array(z.looseObject({ no_traffic_interval: z.string() })).optional(),
        common_lb_config: z.unknown().optional(),
        load_assignment: z
          .object({
            cluster_name: z.string(),
            endpoints: z.tuple([
              z.object({
                lb_endpoints: z.array(z.object({ endpoint: z.object({ address: socketAddress }) })),
              }),
            ]),
          })
          .optional(),
      }),
    ),
  }),
});

/** An Envoy configuration of deploy/envoy. */
export type EnvoyConfig = z.output<typeof envoySchema>;

/** One listener of it. */
export type EnvoyListener = EnvoyConfig['static_resources']['listeners'][number];

/** A configuration of deploy/envoy. @throws ZodError when it is not built as they are */
export const readEnvoyConfig = (file: string): EnvoyConfig => envoySchema.parse(yamlOf(file));

/** The connection manager of a listener. */
export const managerOf = (listener: EnvoyListener) =>
  listener.filter_chains[0].filters[0].typed_config;

/** The routes of a listener in their order. */
export const routesOf = (listener: EnvoyListener) =>
  managerOf(listener).route_config.virtual_hosts[0].routes;

/** Names of the headers that a listener takes off before it chooses a route. */
export const strippedBy = (listener: EnvoyListener): string[] =>
  managerOf(listener).early_header_mutation_extensions?.[0].typed_config.mutations.map(
    ({ remove }) => remove,
  ) ?? [];

/** Where listeners and clusters of one machine are: `host:port` by name, several for a cluster. */
export interface LocalAddresses {
  readonly admin: number;
  readonly listeners: Readonly<Record<string, number>>;
  readonly clusters: Readonly<Record<string, readonly string[]>>;
}

/** The same configuration on loopback with other ports and endpoints; nothing else differs. */
export function onLoopback(config: EnvoyConfig, places: LocalAddresses): EnvoyConfig {
  const copy = structuredClone(config);
  const address = '127.0.0.1';
  const placeOf = <T>(name: string, all: Readonly<Record<string, T>>): T => {
    const place = all[name];
    if (place === undefined) throw new Error(`no address for ${name}`);
    return place;
  };
  copy.admin.address.socket_address.port_value = places.admin;
  const { listeners, clusters } = copy.static_resources;
  for (const listener of listeners) {
    const port = placeOf(listener.name, places.listeners);
    listener.address.socket_address = { address, port_value: port };
  }
  const all = { ...places.clusters, admin: [`${address}:${places.admin}`] };
  for (const { name, load_assignment: assignment } of clusters) {
    if (!assignment) continue;
    assignment.endpoints[0].lb_endpoints = placeOf(name, all).map((place) => {
      const { hostname, port } = new URL(`http://${place}`);
      return {
        endpoint: { address: { socket_address: { address: hostname, port_value: Number(port) } } },
      };
    });
  }
  return copy;
}
