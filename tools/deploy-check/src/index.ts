export { type EnvoyConfig, onLoopback, readEnvoyConfig } from './envoy-config.ts';
export { type NginxProcess, startNginx } from './start-nginx.ts';
export { type AccessLine, type EnvoyProcess, startEnvoy } from './start-envoy.ts';
