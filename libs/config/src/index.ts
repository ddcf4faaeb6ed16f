export { ConfigError, describeProblem } from './config-error.ts';
export { describeParams, type StepParam } from './describe-params.ts';
export { parseDuration } from './duration.ts';
export { explainConfig } from './explain.ts';
export { defaultFile, type Flags, flagNames, parseFlags } from './flags.ts';
export { type ConfigKey, configKeys } from './keys.ts';
export { type ConfigSources, loadConfig, type LoadedConfig } from './load-config.ts';
export { isSecretName, maskSecrets } from './mask-secrets.ts';
export { media as mediaKeys, type MediaSection } from './media-section.ts';
export { nearestName } from './nearest-name.ts';
export { type Program, programText } from './program-text.ts';
export { readYamlFile } from './read-yaml.ts';
export { relaxCollector } from './relax-collector.ts';
export { type CoordinatorConfig, sections } from './schema.ts';
export { stepsWithDefaults } from './step-params.ts';
export {
  boolean,
  booleanOrText,
  duration,
  header,
  headerNames,
  httpAddress,
  integer,
  integerOrText,
  oneOf,
  setting,
  text,
  textList,
} from './setting.ts';
export { writeValue } from './write-value.ts';
