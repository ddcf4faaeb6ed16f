#!/usr/bin/env node
/** Runs the conformance cases against a coordinator. See README.md. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { bodyBytes, send } from './lib/client.mjs';
import { Coordinator, fill, fullConfig } from './lib/coordinator.mjs';
import {
  adaptToOurs,
  applyCasePatch,
  extraChecks,
  ownHeaders,
  ruleTexts,
} from './lib/differences.mjs';
import { FakeUpstream, freePort } from './lib/fake.mjs';
import { canonical, clip, differences, pretty } from './lib/json.mjs';
import { compress, expand, observe } from './lib/observe.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const usage = `usage: node run.mjs --command '<shell command with {config} and {port}>'
  --cases <folder or file>      default: the cases and generated folders beside this script
  --only <text or glob>         run the cases whose "topic/name" contains or matches it (repeatable)
  --expect ours|upstream        ours (default) applies the differences made on purpose
  --wire snapshot|newest        wire switches put into every configuration (default snapshot)
  --media-address <address>     private address on a local interface; without it download cases are skipped
  --record                      write what the command did into the case files as the recorded outcome
  --jobs <n>                    coordinators at once (default 2)
  --json <file>                 write the results as JSON
  --verbose                     print passing cases too
  --list                        print the names of the cases and stop
  --differences                 print what differs from the original on purpose, and why, and stop`;

const { values: options } = parseArgs({
  options: {
    command: { type: 'string' },
    cases: { type: 'string', multiple: true },
    only: { type: 'string', multiple: true },
    expect: { type: 'string', default: 'ours' },
    wire: { type: 'string', default: 'snapshot' },
    'media-address': { type: 'string' },
    record: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '2' },
    json: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    differences: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const isOurs = options.expect === 'ours' && !options.record;
if (
  options.help ||
  (!options.command && !options.list && !options.differences) ||
  !['ours', 'upstream'].includes(options.expect)
) {
  console.error(usage);
  process.exit(2);
}

function filesBelow(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesBelow(join(path, name)))
    .filter((file) => /\.jsonl?$/.test(file));
}

function load(file) {
  const text = readFileSync(file, 'utf8');
  const topic = file
    .split('/')
    .at(-1)
    .replace(/\.jsonl?$/, '');
  if (file.endsWith('.jsonl')) {
    const cases = text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
    return { file, topic, cases };
  }
  return { file, topic, ...JSON.parse(text) };
}

const toPattern = (glob) =>
  new RegExp(
    `^${glob
      .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.')}$`,
  );
const isWanted = (name) =>
  !options.only || options.only.some((only) => name.includes(only) || toPattern(only).test(name));

const roots = options.cases ?? [join(here, 'cases'), join(here, 'generated')];
const suites = roots.flatMap(filesBelow).map(load);
const entries = suites.flatMap((suite) =>
  suite.cases.map((testCase) => ({
    suite,
    testCase,
    name: `${suite.topic}/${testCase.name}`,
    config: testCase.config ?? suite.config,
  })),
);
const names = entries.map((entry) => entry.name);
const twice = names.filter((name, index) => names.indexOf(name) !== index);
if (twice.length > 0) throw new Error(`case names must be unique: ${twice}`);
const wanted = entries.filter((entry) => isWanted(entry.name));
if (options.list) {
  for (const { name, testCase } of wanted)
    console.log(`${name}${testCase.spec ? `  (${testCase.spec})` : ''}`);
  process.exit(0);
}
if (options.differences) {
  console.log('Everywhere:');
  for (const { id, why } of ruleTexts) console.log(`  ${id}: ${why}`);
  console.log('In single cases:');
  for (const { name, testCase } of wanted) {
    const { ours } = testCase;
    if (ours)
      console.log(
        `  ${name}: ${ours.skip ? 'skipped: ' : ours.startup ? `startup ${ours.startup}: ` : ''}${ours.why}`,
      );
  }
  process.exit(0);
}

const results = [];
function report(entry, outcome, lines = []) {
  results.push({ name: entry.name, spec: entry.testCase.spec ?? entry.suite.spec, outcome, lines });
  if (outcome === 'ok' && !options.verbose) return;
  if (outcome === 'skipped' && !options.verbose) return;
  console.log(
    `${outcome === 'ok' ? 'ok  ' : outcome === 'skipped' ? 'skip' : 'FAIL'} ${entry.name}${outcome === 'failed' ? `  [${relative(process.cwd(), entry.suite.file)}${entry.testCase.spec ? `, ${entry.testCase.spec}` : ''}]` : ''}`,
  );
  for (const line of lines.slice(0, options.verbose ? 1000 : 12)) console.log(`       ${line}`);
  if (lines.length > 12 && !options.verbose) console.log(`       … ${lines.length - 12} more`);
}

function skipReason({ testCase, suite }) {
  if ((testCase.media ?? suite.media) && !options['media-address']) return 'needs --media-address';
  if (testCase.source === 'spec' && !isOurs) return 'hand-derived, not for the original';
  if (isOurs && testCase.ours?.skip) return testCase.ours.why;
  if (isOurs && testCase.wire && testCase.wire !== options.wire)
    return `for --wire ${testCase.wire}`;
  return undefined;
}

const isStartup = ({ testCase }) =>
  testCase.kind === 'startup' || (isOurs && testCase.ours?.startup !== undefined);

/** The configuration of a case as an object, with placeholders for addresses. */
function configOf({ testCase, config }) {
  const wire = testCase.wire_switches ?? (testCase.source === 'spec' ? 'newest' : options.wire);
  const overlay = isOurs && testCase.ours?.config ? testCase.ours.config : config;
  return fullConfig(overlay, wire);
}

async function runStartup(entry) {
  const { testCase } = entry;
  const fake = new FakeUpstream();
  await fake.listen(options['media-address']);
  const port = await freePort();
  const places = { ...fake, port: String(port), media_host: options['media-address'] ?? '' };
  const configText = fill(testCase.config_text ?? JSON.stringify(configOf(entry)), places);
  const coordinator = new Coordinator();
  const state = await coordinator.start({
    command: options.command,
    configText,
    port,
    env: { ...testCase.env },
    waitMs: 10_000,
  });
  await coordinator.stop();
  await fake.close();
  const got =
    state.state === 'healthy'
      ? { starts: true }
      : { starts: false, exit: state.code ?? state.signal ?? state.state };
  if (options.record) {
    if (testCase.source !== 'spec') testCase.upstream = got;
    return report(entry, 'ok');
  }
  const wantedState =
    isOurs && testCase.ours?.startup
      ? { starts: testCase.ours.startup === 'accepted' }
      : testCase.upstream;
  if (!isOurs) return finish(entry, differences(wantedState, got, 'startup'), coordinator.output);
  const lines = [];
  if (wantedState.starts !== got.starts)
    lines.push(
      `startup: wanted ${wantedState.starts ? 'to start' : 'a refusal'}, got ${JSON.stringify(got)}`,
    );
  if (!wantedState.starts && !got.starts) {
    if (!(Number.isInteger(got.exit) && got.exit !== 0))
      lines.push(`startup: wanted a non-zero exit code, got ${got.exit}`);
    for (const key of [testCase.key].flat().filter(Boolean)) {
      if (!coordinator.output.includes(key)) lines.push(`startup: the message must name ${key}`);
    }
  }
  return finish(entry, lines, coordinator.output);
}

function finish(entry, lines, output) {
  if (lines.length === 0) return report(entry, 'ok');
  const tail = output
    .trim()
    .split('\n')
    .slice(options.verbose ? -15 : -2);
  const about = entry.config ? [`config: ${clip(JSON.stringify(entry.config), 200)}`] : [];
  return report(entry, 'failed', [
    ...about,
    ...lines,
    ...tail.filter(Boolean).map((line) => `output: ${clip(line, options.verbose ? 400 : 160)}`),
  ]);
}

async function runGroup(group) {
  const fake = new FakeUpstream();
  await fake.listen(options['media-address']);
  const port = await freePort();
  const places = { ...fake, port: String(port), media_host: options['media-address'] ?? '' };
  const coordinator = new Coordinator();
  const configText = fill(group.configText, places);
  const state = await coordinator.start({
    command: options.command,
    configText,
    port,
    env: group.env,
  });
  if (state.state !== 'healthy') {
    for (const entry of group.entries)
      report(entry, 'failed', [
        `the coordinator did not become healthy: ${JSON.stringify(state)}`,
        clip(coordinator.output.trim(), 600),
      ]);
  } else {
    for (const entry of group.entries) {
      try {
        await runCase(entry, fake, port, places, coordinator, group.config);
      } catch (error) {
        report(entry, 'failed', [`the case could not be run: ${error.stack}`]);
      }
    }
  }
  await coordinator.stop();
  await fake.close();
}

const filled = (value, places) =>
  JSON.parse(fill(JSON.stringify(value ?? null), places)) ?? undefined;

async function runCase(entry, fake, port, places, coordinator, config) {
  const testCase = { ...entry.testCase, request: filled(entry.testCase.request, places) };
  const requests = [testCase.request, ...(testCase.then ?? [])];
  const ids = requests.map(({ headers }) => headers?.['x-request-id']).filter(Boolean);
  fake.begin(filled(testCase.script, places), ids);
  let result;
  for (const request of requests) result = await send(port, request);
  if (testCase.request.abort_after_ms !== undefined)
    await new Promise((resolve) => setTimeout(resolve, testCase.request.settle_ms ?? 600));
  const hung = await fake.settle(testCase.settle_ms ?? 1500);
  const calls = fake.calls;
  const observed = observe(testCase, calls, result, {
    watchMedia: testCase.media ?? entry.suite.media,
    ignored: isOurs ? ownHeaders : [],
    keepErrorText: isOurs,
  });
  const places2 = Object.entries(places).filter(
    ([name, value]) =>
      ['render', 'gateway', 'media', 'closed'].includes(name) && typeof value === 'string',
  );
  const unfilled = JSON.parse(
    places2.reduce(
      (text, [name, value]) => text.replaceAll(value, `{${name}}`),
      JSON.stringify(observed),
    ),
  );
  if (options.record) {
    if (entry.testCase.source !== 'spec')
      entry.testCase.upstream = compress(unfilled, entry.testCase);
    return report(entry, 'ok');
  }
  const recorded =
    testCase.source === 'spec' ? { calls: [], response: {} } : entry.testCase.upstream;
  if (!recorded) return report(entry, 'failed', ['nothing recorded']);
  let expected = expand(recorded, entry.testCase);
  const actual = unfilled;
  const lines = [];
  if (isOurs) {
    const ours = entry.testCase.ours;
    if (testCase.source === 'spec') expected = structuredClone(entry.testCase.expected);
    else adaptToOurs(expected, entry.testCase, config);
    applyCasePatch(expected, ours);
    sortPinned(actual.calls);
    if (testCase.source === 'spec')
      expected.calls = expandSpecCalls(expected.calls, entry.testCase, actual.calls);
    lines.push(
      ...extraChecks(testCase, calls, result, bodyBytes(testCase.request)?.toString('utf8')),
    );
    // Encode legs are sorted by body; the adapted bodies sort differently.
    if (Array.isArray(expected.calls)) sortEncodes(expected.calls);
    sortEncodes(actual.calls);
  }
  if (hung > 0 && testCase.may_hang !== true)
    lines.push(`${hung} upstream calls were still open at the end`);
  lines.unshift(...compare(expected, actual, result));
  return finish(entry, lines, coordinator.output);
}

/** In hand-written expectations `edits` are against the client's body, and headers are those worth naming. */
function expandSpecCalls(calls, testCase, actualCalls) {
  if (!Array.isArray(calls)) return calls;
  const full = expand({ calls }, testCase).calls;
  full.forEach((call, index) => {
    const actual = actualCalls[index];
    if (actual && actual.role === call.role) call.headers = { ...actual.headers, ...call.headers };
    for (const [name, value] of Object.entries(call.headers ?? {}))
      if (value === null) delete call.headers[name];
  });
  return full;
}

/** After a reservation the prefill and decode legs start at once. */
function sortPinned(calls) {
  const at = calls.findIndex((call) => call.role === 'reserve') + 1;
  if (at > 0) calls.push(...calls.splice(at).sort((a, b) => (a.role < b.role ? 1 : -1)));
}

function sortEncodes(calls) {
  const at = calls
    .map((call, index) => (call.role === 'encode' ? index : -1))
    .filter((index) => index >= 0);
  const sorted = at
    .map((index) => calls[index])
    .sort((a, b) => (canonical(keyOf(a)) < canonical(keyOf(b)) ? -1 : 1));
  at.forEach((index, i) => (calls[index] = sorted[i]));
}
const keyOf = ({ path, body }) => [path, body?.messages ?? body?.input, body?.features];

function compare(expected, actual, result) {
  const lines = [];
  const flow = (calls) => calls.map((call) => call.role).join(' > ') || '(none)';
  if (expected.calls?.$any !== true) {
    if (flow(expected.calls) !== flow(actual.calls)) {
      lines.push(`calls: wanted ${flow(expected.calls)}`, `       got    ${flow(actual.calls)}`);
    }
    for (let i = 0; i < Math.min(expected.calls.length, actual.calls.length); i++) {
      if (expected.calls[i].role === actual.calls[i].role)
        lines.push(
          ...differences(
            expected.calls[i],
            actual.calls[i],
            `call ${i + 1} (${actual.calls[i].role})`,
          ),
        );
    }
  }
  const { error, json, text, ...wantedResponse } = expected.response;
  const { text: gotText, ...gotResponse } = actual.response;
  if ('either' in wantedResponse) {
    const options = wantedResponse.either.map((option) =>
      compareResponse(option, gotResponse, gotText, result),
    );
    return options.some((option) => option.length === 0) ? lines : [...lines, ...options.flat()];
  }
  return [
    ...lines,
    ...compareResponse({ error, json, text, ...wantedResponse }, gotResponse, gotText, result),
  ];
}

function compareResponse({ error, json, text, ...wantedResponse }, gotResponse, gotText, result) {
  const lines = [];
  const got = { ...gotResponse };
  if (got.headers) got.headers = { ...got.headers };
  if (isOurs) {
    // Beyond content-type a header counts only where the expectation names it.
    for (const name of Object.keys(got.headers ?? {}))
      if (wantedResponse.headers?.[name] === undefined) delete got.headers[name];
    if (wantedResponse.headers === undefined) delete got.headers;
    for (const key of ['status', 'origin', 'ended', 'flushed', 'base64'])
      if (!(key in wantedResponse)) delete got[key];
  }
  lines.push(...differences(wantedResponse, got, 'response'));
  if (text !== undefined || (!isOurs && gotText !== undefined))
    lines.push(...differences(text, gotText, 'response.text'));
  if (json !== undefined) {
    let parsed;
    try {
      parsed = JSON.parse(gotText);
    } catch {
      lines.push(`response: wanted JSON, got ${clip(String(gotText))}`);
    }
    if (parsed !== undefined) lines.push(...differences(json, parsed, 'response.json'));
  }
  if (error !== undefined) lines.push(...errorShape(error, gotText, result));
  return lines;
}

/** Our errors: OpenAI-shaped, with a code, the request id and the step, and nothing of the upstream. */
function errorShape({ id, step, names = [], code }, text) {
  let error;
  try {
    ({ error } = JSON.parse(text));
  } catch {
    return [`response: wanted an OpenAI-shaped JSON error, got ${clip(String(text))}`];
  }
  const lines = [];
  const isText = (value) => typeof value === 'string' && value.length > 0;
  if (!isText(error?.message))
    lines.push(`response.error.message: wanted a text, got ${JSON.stringify(error?.message)}`);
  if (!isText(error?.type))
    lines.push(`response.error.type: wanted a text, got ${JSON.stringify(error?.type)}`);
  if (error?.code === undefined || error.code === null) lines.push('response.error.code: absent');
  if (code !== undefined && error?.code !== code)
    lines.push(`response.error.code: wanted ${code}, got ${error?.code}`);
  for (const part of [id, step, ...names])
    if (part && !text.includes(part))
      lines.push(`response.error: must mention ${part}, got ${clip(text)}`);
  return lines;
}

const startedAt = Date.now();
const groups = new Map();
const tasks = [];
for (const entry of wanted) {
  const reason = skipReason(entry);
  if (reason) {
    report(entry, 'skipped', [reason]);
    continue;
  }
  if (isStartup(entry)) {
    tasks.push(() => runStartup(entry));
    continue;
  }
  const config = configOf(entry);
  const env = { ...entry.suite.env, ...entry.testCase.env };
  const key = canonical({ config, env, alone: entry.testCase.alone ? entry.name : undefined });
  if (!groups.has(key)) {
    const group = { config, configText: JSON.stringify(config, null, 1), env, entries: [] };
    groups.set(key, group);
    tasks.push(() => runGroup(group));
  }
  groups.get(key).entries.push(entry);
}
let next = 0;
const workers = Array.from({ length: Number(options.jobs) }, async () => {
  while (next < tasks.length) await tasks[next++]();
});
await Promise.all(workers);

if (options.record) {
  for (const suite of suites.filter((candidate) =>
    wanted.some((entry) => entry.suite === candidate),
  )) {
    const { file, topic: _topic, ...content } = suite;
    if (file.endsWith('.jsonl'))
      writeFileSync(
        file,
        content.cases.map((testCase) => `${JSON.stringify(testCase)}\n`).join(''),
      );
    else writeFileSync(file, `${pretty(content)}\n`);
  }
}
const count = (outcome) => results.filter((result) => result.outcome === outcome).length;
const seconds = ((Date.now() - startedAt) / 1000).toFixed(1);
if (options.json)
  writeFileSync(
    options.json,
    `${JSON.stringify({ passed: count('ok'), failed: count('failed'), skipped: count('skipped'), seconds: Number(seconds), results }, null, 1)}\n`,
  );
const skippedBy = {};
for (const { outcome, lines } of results)
  if (outcome === 'skipped') skippedBy[lines[0]] = (skippedBy[lines[0]] ?? 0) + 1;
for (const [reason, number] of Object.entries(skippedBy))
  console.log(`skipped ${number}: ${clip(reason, 120)}`);
console.log(
  `${seconds} s, ${groups.size} configurations, expectation: ${isOurs ? 'ours' : options.record ? 'recording' : 'upstream'}, wire: ${options.wire}`,
);
console.log(`${count('ok')} passed, ${count('failed')} failed`);
process.exit(count('failed') === 0 ? 0 : 1);
