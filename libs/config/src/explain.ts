import { parse } from 'yaml';
import { type StepParam } from './describe-params.ts';
import { type ConfigKey, configKeys } from './keys.ts';
import { type LoadedConfig } from './load-config.ts';
import { maskSecrets } from './mask-secrets.ts';
import { eraDefaults } from './pipeline-section.ts';
import { type CoordinatorConfig, emptyMeans, sections } from './schema.ts';
import { stepsWithDefaults } from './step-params.ts';
import { writeValue } from './write-value.ts';

const indentation = '  ';

/**
 * The configuration in effect as YAML, each value with its origin as a comment: `default`, `file`, `env NAME`, `flag`,
 * or the key of the pipeline section that stands in for a step's parameter. Secrets are masked.
 *
 * @param paramsOf what a kind of step knows; undefined for an unknown one.
 */
export function explainConfig(
  loaded: LoadedConfig,
  paramsOf: (type: string) => readonly StepParam[] | undefined,
): string {
  return [...explainSection('', '', loaded), ...explainSteps(loaded, paramsOf), ''].join('\n');
}

function explainSection(section: string, indent: string, loaded: LoadedConfig): string[] {
  const lines = configKeys
    .filter((key) => key.section === section && key.path !== 'pipeline.steps')
    .map((key) => explainKey(key, indent, loaded))
    .filter((line) => line !== undefined);
  for (const child of Object.keys(sections)) {
    if (child === '' || parentOf(child) !== section) continue;
    lines.push(`${indent}${nameOf(child)}:`);
    lines.push(...explainSection(child, indent + indentation, loaded));
  }
  return lines;
}

function explainKey(key: ConfigKey, indent: string, loaded: LoadedConfig): string | undefined {
  const name = nameOf(key.path);
  const given = givenAt(loaded.given, key.path);
  const value = given === undefined ? standardOf(key, loaded.config) : typed(given, key.default);
  if (value === undefined) return undefined;
  const shown = value === '' || value === 0 ? (emptyValues[key.path] ?? value) : value;
  return writeLine(`${indent}${name}`, name, shown, loaded.origins.get(key.path) ?? 'default');
}

const emptyValues: Readonly<Record<string, unknown>> = emptyMeans;

/** The default, which an era may decide. */
function standardOf({ path, default: standard }: ConfigKey, config: CoordinatorConfig): unknown {
  if (standard !== undefined || parentOf(path) !== 'pipeline.wire') return standard;
  const byEra: Readonly<Record<string, unknown>> = eraDefaults[config.pipeline.wire.era];
  return byEra[nameOf(path)];
}

/** Texts of environment and flags as the file would spell them. */
function typed(value: unknown, standard: unknown): unknown {
  if (typeof value !== 'string' || typeof standard === 'string') return value;
  if (Array.isArray(standard)) return value === '' ? [] : value.split(',');
  return standard === undefined ? value : (parse(value) as unknown);
}

function explainSteps(
  { config, origins }: LoadedConfig,
  paramsOf: (type: string) => readonly StepParam[] | undefined,
): string[] {
  const { steps } = config.pipeline;
  if (steps.length === 0) return [`${indentation}steps: [] # default`];
  const complete = stepsWithDefaults(config.pipeline);
  return [
    `${indentation}steps:`,
    ...steps.flatMap(({ type, params }, index) => {
      const path = `pipeline.steps[${index}]`;
      const known = paramsOf(type) ?? [];
      const names = [...new Set([...known.map((param) => param.name), ...Object.keys(params)])];
      const lines = names.map((name) => {
        const param = known.find((one) => one.name === name);
        const isGiven = params[name] !== undefined && params[name] !== null;
        const value =
          isGiven || param?.isInherited ? complete[index]?.params[name] : param?.default;
        if (value === undefined) return undefined;
        const source = param?.isInherited ? `pipeline.${name}` : 'default';
        const origin = isGiven ? (origins.get(`${path}.params.${name}`) ?? '') : source;
        const remark = known.length > 0 && !param ? ', unknown' : '';
        return writeLine(indentation.repeat(4) + name, name, value, origin + remark);
      });
      const shown = lines.filter((line) => line !== undefined);
      return [
        writeLine(
          `${indentation.repeat(2)}- type`,
          'type',
          type,
          origins.get(`${path}.type`) ?? '',
        ),
        ...(shown.length === 0 ? [] : [`${indentation.repeat(3)}params:`, ...shown]),
      ];
    }),
  ];
}

function writeLine(start: string, name: string, value: unknown, origin: string): string {
  return `${start}: ${writeValue(maskSecrets(name, value))} # ${origin}`;
}

function givenAt(given: Readonly<Record<string, unknown>>, path: string): unknown {
  let value: unknown = given;
  for (const name of path.split('.'))
    value = (value as Record<string, unknown> | undefined)?.[name];
  return value;
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('.')));
}
