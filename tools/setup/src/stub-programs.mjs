import { appendFileSync, copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setInterval } from 'node:timers';

// Stands in for npm, nx, prettier, sudo and apt-get in main.test.mjs, each of which is a one-line
// script that calls this file with its own name. Every call is noted in STUB_LOG; what a call does
// beyond that is told by the other STUB_ variables.
const [name, ...args] = process.argv.slice(2);
const { STUB_BIN, STUB_LOG, STUB_NPM, STUB_APT, STUB_TASKS, STUB_COUNTS } = process.env;

/** What nx "builds": echoes how it was started, then waits for a signal if it was told to. */
const program = `
const args = process.argv.slice(2);
console.log(JSON.stringify({ args, node: process.argv0 }));
if (args.includes('--wait')) {
  const alive = setInterval(() => {}, 1000);
  process.on('SIGTERM', () => {
    console.log('ended by SIGTERM');
    clearInterval(alive);
    process.exitCode = 3;
  });
  console.log('waiting');
} else if (args.includes('--fail')) {
  process.exitCode = 7;
}
`;

function addProgram(folder, programName) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, programName),
    `#!/bin/sh\nexec ${process.execPath} ${process.argv[1]} ${programName} "$@"\n`,
    { mode: 0o755 },
  );
}

function write(file, text) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

const stubs = {
  npm() {
    if (STUB_NPM === 'fails') {
      console.error('npm error: no such package');
      process.exit(1);
    }
    if (STUB_NPM === 'hangs') {
      setInterval(() => {}, 1000);
      return;
    }
    addProgram('node_modules/.bin', 'nx');
    addProgram('node_modules/.bin', 'prettier');
    // As npm 10 leaves it: the package is there, its link in .bin is not.
    const node = `node_modules/node-${process.platform}-${process.arch}/bin/node`;
    mkdirSync(dirname(node), { recursive: true });
    symlinkSync(process.execPath, node);
    copyFileSync('package-lock.json', 'node_modules/.package-lock.json');
  },
  nx() {
    if (args[0] === 'run-many' && args[2] === 'build') {
      console.log('noise of the build');
      write('tools/local-stack/dist/main.js', program);
      write('apps/coordinator/dist/main.js', program);
    } else if (args.includes('test')) {
      write('.nx/cache/run.json', JSON.stringify({ tasks: JSON.parse(STUB_TASKS) }));
      write(join(process.env.TEST_RESULTS_DIR, 'unit.json'), STUB_COUNTS);
      process.exitCode = STUB_TASKS === '[]' ? 0 : 1;
    } else if (args[0] === 'run') {
      const counts = { project: 'e2e', passed: 2, failed: 0, skipped: 1 };
      write(join(process.env.TEST_RESULTS_DIR, 'e2e.json'), JSON.stringify(counts));
    }
  },
  prettier() {},
  sudo() {
    // Only `sudo -n true` and `sudo -n apt-get ...` are asked for.
    if (args[1] === 'apt-get') {
      aptGet(args.slice(2));
    }
  },
  'apt-get': () => aptGet(args),
};

function aptGet(words) {
  if (STUB_APT === 'fails') {
    console.error('E: no network');
    process.exitCode = 100;
  } else if (words.includes('install')) {
    addProgram(STUB_BIN, 'redis-server');
  }
}

appendFileSync(STUB_LOG, `${name} ${args.join(' ')}\n`);
stubs[name]();
