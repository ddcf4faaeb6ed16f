import { describeParams, explainConfig, type LoadedConfig } from '@llm-d/config';
import { builtInSteps, loadPlugins } from '@llm-d/steps';

/**
 * The configuration in effect as YAML, parameters of steps included, with the origin of each value. Throws a
 * ConfigError when a plugin cannot be loaded.
 */
export async function explainConfiguration(loaded: LoadedConfig, file: string): Promise<string> {
  const plugins = await loadPlugins(loaded.config.pipeline.plugins, file);
  const definitions = new Map([...builtInSteps, ...plugins].map((step) => [step.type, step]));
  return explainConfig(loaded, (type) => {
    const definition = definitions.get(type);
    return definition && describeParams(definition.params);
  });
}
