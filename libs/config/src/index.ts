export { ConfigError, describeProblem } from './config-error.ts';
export { parseDuration } from './duration.ts';
export { type Flags, parseFlags } from './flags.ts';
export { type ConfigKey, configKeys } from './keys.ts';
export { type ConfigSources, loadConfig, type LoadedConfig } from './load-config.ts';
export { nearestName } from './nearest-name.ts';
export { type CoordinatorConfig } from './schema.ts';
export { stepsWithDefaults } from './step-params.ts';
export {
  boolean,
  duration,
  header,
  headerNames,
  integer,
  oneOf,
  setting,
  text,
  textList,
} from './setting.ts';
