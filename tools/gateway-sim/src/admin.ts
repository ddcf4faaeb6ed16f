import { type IncomingMessage, type ServerResponse } from 'node:http';
import { type EndpointTable } from './endpoints.ts';
import { type LegLog } from './leg-log.ts';
import { type GatewayConfig } from './options.ts';

/** What the admin listener shows. */
export interface AdminView {
  config: GatewayConfig;
  table: EndpointTable;
  legs: LegLog;
}

/** Serves `/ready`, `/metrics`, `/config`, `/endpoints` and `/picks?request_id=`. */
export function serveAdmin(
  { config, table, legs }: AdminView,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const url = new URL(request.url ?? '/', 'http://admin');
  const json = (body: unknown): void => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  request.resume();
  switch (url.pathname) {
    case '/ready':
      response.end('LIVE\n');
      return;
    case '/metrics':
      response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' });
      response.end(legs.metricsText() + endpointMetrics(table));
      return;
    case '/config':
      json(config);
      return;
    case '/endpoints':
      json({
        endpoints: table.all.map(
          ({ spec, isHealthy, ejectedUntilMs, activeRequests, inflightTokens }) => ({
            ...spec,
            isHealthy,
            isEjected: ejectedUntilMs > performance.now(),
            activeRequests,
            inflightTokens,
          }),
        ),
      });
      return;
    case '/picks':
      json({ picks: legs.list(url.searchParams.get('request_id') ?? undefined) });
      return;
    default:
      response.writeHead(404);
      response.end();
  }
}

const endpointMetrics = (table: EndpointTable): string =>
  [
    '# TYPE gateway_sim_endpoint_active_requests gauge',
    ...table.all.map(
      ({ name, activeRequests }) =>
        `gateway_sim_endpoint_active_requests{pod="${name}"} ${activeRequests}`,
    ),
    '# TYPE gateway_sim_endpoint_healthy gauge',
    ...table.all.map(
      ({ name, isHealthy }) => `gateway_sim_endpoint_healthy{pod="${name}"} ${isHealthy ? 1 : 0}`,
    ),
    '',
  ].join('\n');
