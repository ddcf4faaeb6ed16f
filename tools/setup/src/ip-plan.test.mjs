import { describe, expect, it } from '@jest/globals';
import { planIp } from './ip-plan.mjs';

const plan = ({ commands, ...facts }) =>
  planIp({
    platform: 'linux',
    uid: 0,
    hasPasswordlessSudo: false,
    ...facts,
    commands: new Set(commands),
  });

describe('planIp', () => {
  it('finds what is there', () => {
    expect(plan({ commands: ['ip', 'apt-get'] })).toEqual({ found: 'ip' });
  });

  it('needs nothing where there are no network namespaces', () => {
    expect(plan({ commands: [], platform: 'darwin' })).toEqual({ found: 'ip' });
  });

  it.each([
    ['apt-get', 'iproute2'],
    ['dnf', 'iproute'],
    ['apk', 'iproute2'],
  ])('installs with %s the package %s', (manager, name) => {
    const { attempts, advice } = plan({ commands: [manager] });
    expect(attempts).toHaveLength(1);
    expect([attempts[0][0], attempts[0].at(-1)]).toEqual([manager, name]);
    expect(advice).toBe(`${manager} install ${name}`);
  });

  it('only advises a user who may not install', () => {
    expect(plan({ commands: ['apt-get'], uid: 1000 })).toEqual({
      advice: 'sudo apt-get install iproute2',
    });
  });

  it('names the package where no manager is known', () => {
    expect(plan({ commands: [] })).toEqual({ advice: 'install iproute2' });
  });
});
