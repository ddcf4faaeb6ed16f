export { type Leg } from './leg-log.ts';
export { type EndpointSpec, type GateMode, type GatewayOptions } from './options.ts';
export { type Gateway, startGateway } from './gateway.ts';
