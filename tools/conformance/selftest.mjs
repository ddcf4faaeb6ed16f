#!/usr/bin/env node
/**
 * Checks that the runner can fail: a tiny coordinator that knows one decode step passes its case,
 * and each deliberate fault in it is found and named.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const self = fileURLToPath(import.meta.url);
const here = dirname(self);

function tinyCoordinator(configFile, fault) {
  const config = JSON.parse(readFileSync(configFile, 'utf8'));
  if (fault === 'exit') process.exit(3);
  const port = Number(config.server.listen_addr.split(':').at(-1));
  const gateway = new URL(config.gateway.address);
  createServer(async (incoming, response) => {
    if (incoming.url === '/healthz') return response.end('ok');
    const parts = [];
    for await (const part of incoming) parts.push(part);
    const text = Buffer.concat(parts).toString();
    const params = '"kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true}';
    let body = `${text.slice(0, -1)},${params}}`;
    if (fault === 'body') body = `${text.slice(0, -1)},"kv_transfer_params":{}}`;
    if (fault === 'bytes')
      body = JSON.stringify({ ...JSON.parse(text), ...JSON.parse(`{${params}}`) });
    const headers = {
      'content-type': 'application/json',
      'epp-profile': fault === 'header' ? 'prefill' : 'decode',
      'x-request-id': incoming.headers['x-request-id'],
      'x-llm-d-revision-decision-id': fault === 'decision' ? 'none' : crypto.randomUUID(),
    };
    const call = () =>
      new Promise((resolve) => {
        request(
          {
            host: gateway.hostname,
            port: gateway.port,
            path: incoming.url,
            method: 'POST',
            headers,
            agent: false,
          },
          resolve,
        ).end(body);
      });
    if (fault === 'twice') (await call()).resume();
    const answer = await call();
    response.writeHead(fault === 'status' ? 500 : answer.statusCode, answer.headers);
    if (fault === 'cut') {
      response.flushHeaders();
      return setTimeout(() => response.destroy(), 50);
    }
    answer.pipe(response);
  }).listen(port, '127.0.0.1');
}

const testCase = {
  name: 'one decode step',
  source: 'spec',
  config: { pipeline: { kv_connector: 'kv-shared-storage', steps: ['decode'] } },
  request: {
    path: '/v1/completions',
    headers: { 'x-request-id': 'self-1' },
    raw: '{"model":"m","seed":9007199254740993,"prompt":"x"}',
  },
  expected: {
    calls: [
      {
        role: 'decode',
        path: '/v1/completions',
        headers: { 'epp-profile': 'decode', 'x-request-id': 'self-1' },
        edits: {
          set: { kv_transfer_params: { do_remote_decode: false, do_remote_prefill: true } },
        },
      },
    ],
    response: { status: 200, ended: 'complete', origin: 'worker' },
  },
};

/** Fault, and what the report must say about it. */
const faults = [
  ['none', '1 passed, 0 failed'],
  ['exit', 'did not become healthy'],
  ['header', 'calls: wanted decode'],
  ['body', 'kv_transfer_params.do_remote_prefill: wanted true, got (absent)'],
  ['bytes', 'seed: same value in other bytes: 9007199254740993 became 9007199254740992'],
  ['decision', 'wanted a UUID on every call'],
  ['status', 'response.status: wanted 200, got 500'],
  ['twice', 'got    decode > decode'],
  ['cut', 'response.ended: wanted "complete", got "aborted"'],
];

if (process.argv[2] === '--serve') {
  tinyCoordinator(process.argv[3], process.argv[4]);
} else {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-selftest-'));
  writeFileSync(join(folder, 'self.json'), JSON.stringify({ cases: [testCase] }));
  let failed = 0;
  for (const [fault, wanted] of faults) {
    const command = `'${process.execPath}' '${self}' --serve {config} ${fault}`;
    const run = spawnSync(
      process.execPath,
      [join(here, 'run.mjs'), '--command', command, '--cases', folder],
      { encoding: 'utf8' },
    );
    const isRight = run.stdout.includes(wanted) && (run.status === 0) === (fault === 'none');
    if (!isRight) failed++;
    console.log(
      `${isRight ? 'ok  ' : 'FAIL'} fault "${fault}" ${fault === 'none' ? 'passes' : 'is found'}`,
    );
    if (!isRight) console.log(run.stdout + run.stderr);
  }
  rmSync(folder, { recursive: true, force: true });
  console.log(`${faults.length - failed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
