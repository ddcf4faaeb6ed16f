import { existsSync } from 'node:fs';
import { findPackageJSON, registerHooks } from 'node:module';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { constants, Script } from 'node:vm';
import { ConfigError } from '@llm-d/config';
import { type StepDefinition } from '@llm-d/pipeline';
import { builtInSteps } from './build-pipeline.ts';

/** What a step is written with: a file beside the configuration may import it without having it installed. */
const lentPackages = /^(?:@llm-d\/pipeline|zod)(?:\/|$)/;

/**
 * Loads the definitions of `pipeline.plugins`: packages, looked for from the folder of the configuration file and then
 * from this package, and files relative to the configuration file. Each is an ES module whose export `steps`, or else
 * its default export, is an array of definitions or one definition.
 *
 * @param configFile path of the configuration file.
 * @throws ConfigError with one line per plugin that is not there, throws, exports nothing usable, or defines a type that
 *   is taken.
 */
export async function loadPlugins(
  names: readonly string[],
  configFile: string,
): Promise<StepDefinition[]> {
  if (names.length === 0) return [];
  const owners = new Map(builtInSteps.map(({ type }) => [type, 'the coordinator']));
  const definitions: StepDefinition[] = [];
  const problems: string[] = [];
  const lending = lendPackages();
  // One after another: what a plugin does while it loads may not race with another.
  for (const name of names) {
    try {
      for (const definition of definitionsOf(await importPlugin(name, configFile))) {
        const owner = owners.get(definition.type);
        if (owner)
          throw new PluginProblem(`the step type "${definition.type}" is taken by ${owner}`);
        owners.set(definition.type, `the plugin "${name}"`);
        definitions.push(definition);
      }
    } catch (error) {
      const reason =
        error instanceof PluginProblem ? error.message : `cannot be loaded: ${messageOf(error)}`;
      problems.push(`pipeline.plugins: "${name}": ${reason}`);
    }
  }
  lending.deregister();
  if (problems.length > 0) throw new ConfigError(problems);
  return definitions;
}

/** Finds the coordinator's own copy of what a plugin imports and cannot find. */
function lendPackages(): { deregister(): void } {
  return registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context);
      } catch (error) {
        if (!lentPackages.test(specifier)) throw error;
        return next(specifier, { ...context, parentURL: import.meta.url });
      }
    },
  });
}

/** What keeps a plugin from being used, in words for the operator. */
class PluginProblem extends Error {}

async function importPlugin(name: string, configFile: string): Promise<object> {
  const config = resolve(configFile);
  if (!/^[./]/.test(name)) {
    const base = [config, import.meta.filename].find((file) => isInstalled(name, file));
    if (base) return importFrom(base, name);
    const folder = dirname(config);
    throw new PluginProblem(`no such package, neither from ${folder} nor from the coordinator`);
  }
  const file = resolve(dirname(config), name);
  if (!existsSync(file)) throw new PluginProblem(`no such file: ${file}`);
  return importFrom(config, pathToFileURL(file).href);
}

function isInstalled(name: string, from: string): boolean {
  try {
    return findPackageJSON(name, pathToFileURL(from)) !== undefined;
  } catch {
    return false;
  }
}

/** Imports as a module in that place would: what a package exports to whom is Node's to know. */
async function importFrom(file: string, specifier: string): Promise<object> {
  const load = new Script('(specifier) => import(specifier)', {
    filename: file,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }).runInThisContext() as (specifier: string) => Promise<object>;
  return load(specifier);
}

function definitionsOf(plugin: { steps?: unknown; default?: unknown }): StepDefinition[] {
  const exported = plugin.steps ?? plugin.default;
  const list: unknown[] = Array.isArray(exported) ? exported : [exported];
  if (exported === undefined || list.length === 0) {
    throw new PluginProblem(
      'expected step definitions as the export "steps" or as the default export',
    );
  }
  return list.map((definition, index) => {
    const problem = problemOf(definition);
    if (problem === undefined) return definition as StepDefinition;
    const place = Array.isArray(exported) ? `step ${index}` : 'the exported step';
    throw new PluginProblem(`${place}: ${problem}`);
  });
}

/** Definitions are known by their shape: a plugin may have its own copy of `@llm-d/pipeline` and of zod. */
function problemOf(definition: unknown): string | undefined {
  if (typeof definition !== 'object' || definition === null) {
    return 'expected a step definition, see defineStep of @llm-d/pipeline';
  }
  const { type, params, create }: { type?: unknown; params?: unknown; create?: unknown } =
    definition;
  if (typeof type !== 'string' || type === '') return 'type: expected a name';
  const isSchema =
    typeof params === 'object' &&
    params !== null &&
    'safeParse' in params &&
    typeof params.safeParse === 'function';
  if (!isSchema) return `${type}: params: expected a zod schema`;
  return typeof create === 'function' ? undefined : `${type}: create: expected a function`;
}

function messageOf(error: unknown): string {
  const isError = typeof error === 'object' && error !== null && 'message' in error;
  return String(isError ? error.message : error);
}
