/** Starts and stops the coordinator under test. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { merge } from './json.mjs';

/** What every configuration starts from; a case overlays it. Unknown keys do not disturb the original. */
const baseConfig = {
  log_level: 1,
  server: {
    listen_addr: '127.0.0.1:{port}',
    secure_serving: false,
    metrics_port: 0,
    read_timeout: '30s',
    write_timeout: '120s',
    shutdown_timeout: '3s',
  },
  gateway: { address: '{gateway}', timeout: '10s' },
  pipeline: {
    kv_connector: 'kv-nixl',
    ec_connector: 'ec-nixl',
    use_openai_format: true,
    kv_multi_sequence: 'transfer',
    steps: ['replace-media-urls', 'render', 'encode', 'prefill', 'decode'],
  },
};

/** `wire: snapshot` speaks the shapes of the recorded version, `newest` the present ones. */
export function fullConfig(overlay = {}, wire = 'snapshot') {
  const config = merge(baseConfig, overlay);
  const isOpenAi = config.pipeline?.use_openai_format !== false;
  if (config.pipeline && config.pipeline.wire === undefined) {
    config.pipeline.wire =
      typeof wire === 'object'
        ? wire
        : wire === 'newest'
          ? {
              phase_header: 'EPP-Profile',
              generate_transfer_params: 'top-level',
              chat_tokens: false,
            }
          : {
              phase_header: 'EPP-Profile',
              generate_transfer_params: 'extra-args',
              chat_tokens: isOpenAi,
            };
  }
  if (Array.isArray(config.pipeline?.steps))
    config.pipeline.steps = config.pipeline.steps.map(longStep);
  return config;
}

/** `"render"` or `{ "render": { … } }` becomes `{ type, params }`; the render address is filled in. */
function longStep(step) {
  if (step === null || typeof step !== 'object') {
    if (typeof step !== 'string') return step;
    step = { [step]: undefined };
  } else if ('type' in step) return step;
  const [[type, given]] = Object.entries(step);
  const params = type === 'render' ? { address: '{render}', ...given } : given;
  for (const [key, value] of Object.entries(params ?? {}))
    if (value === '{absent}') delete params[key];
  return params === undefined ? { type } : { type, params };
}

export function fill(text, values) {
  return text.replaceAll(
    /\{(port|render|gateway|media|media_host|closed|config)\}/g,
    (whole, name) => values[name] ?? whole,
  );
}

function cleanEnvironment(extra) {
  const env = {};
  for (const [name, value] of Object.entries(process.env))
    if (!/^(COORDINATOR_|SGLANG_)/.test(name)) env[name] = value;
  return { ...env, ...extra };
}

const running = new Set();
process.on('exit', () => {
  for (const pid of running) {
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // already gone
    }
  }
});
for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => process.exit(130));

export class Coordinator {
  output = '';
  #directory;
  #child;
  #exit;

  /** Runs the command with the configuration text; resolves at the first of: healthy, exited, out of time. */
  async start({ command, configText, port, env, waitMs = 20_000 }) {
    this.#directory = await mkdtemp(join(tmpdir(), 'conformance-'));
    const config = join(this.#directory, 'coordinator.yaml');
    await writeFile(config, configText);
    this.#child = spawn('/bin/sh', ['-c', fill(command, { config, port: String(port) })], {
      detached: true,
      env: cleanEnvironment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    running.add(this.#child.pid);
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.on('data', (piece) => {
        this.output = (this.output + piece).slice(-60_000);
      });
    }
    this.#exit = new Promise((resolve) =>
      this.#child.on('close', (code, signal) => resolve({ code, signal })),
    );
    let exited;
    this.#exit.then((result) => {
      exited = result;
    });
    const end = Date.now() + waitMs;
    while (Date.now() < end) {
      if (exited) return { state: 'exited', ...exited };
      if ((await statusOf(port)) === 200) return { state: 'healthy' };
      await sleep(25);
    }
    return exited ? { state: 'exited', ...exited } : { state: 'silent' };
  }

  async stop() {
    const signal = (name) => {
      try {
        process.kill(-this.#child.pid, name);
      } catch {
        // already gone
      }
    };
    signal('SIGTERM');
    const gone = await Promise.race([this.#exit.then(() => true), sleep(5000).then(() => false)]);
    if (!gone) signal('SIGKILL');
    const result = await this.#exit;
    running.delete(this.#child.pid);
    await rm(this.#directory, { recursive: true, force: true });
    return result;
  }
}

function statusOf(port) {
  return new Promise((resolve) => {
    const call = get(
      { host: '127.0.0.1', port, path: '/healthz', agent: false, timeout: 1000 },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    );
    call.on('error', () => resolve(undefined));
    call.on('timeout', () => call.destroy());
  });
}
