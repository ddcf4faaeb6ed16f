export { optionsFrom as gatewayOptions } from './command-line.ts';
export { clientPath } from './client-call.ts';
export { strippedOnPublic } from './headers.ts';
export { type Leg } from './leg-log.ts';
export { type EndpointSpec, type GateMode, type GatewayOptions } from './options.ts';
export { type Gateway, startGateway } from './gateway.ts';
