import { describe, expect, it } from '@jest/globals';
import { planTool } from './tool-plan.mjs';

const plan = (name, { commands, ...facts }) =>
  planTool(name, {
    platform: 'linux',
    uid: 0,
    hasPasswordlessSudo: false,
    ...facts,
    commands: new Set(commands),
  });

describe('planTool', () => {
  it('finds what is there', () => {
    expect(plan('iproute2', { commands: ['ip', 'apt-get'] })).toEqual({ found: 'iproute2' });
    expect(plan('Python', { commands: ['python3', 'pip3'] })).toEqual({ found: 'Python' });
  });

  it('needs no iproute2 where there are no network namespaces', () => {
    expect(plan('iproute2', { commands: [], platform: 'darwin' })).toEqual({ found: 'iproute2' });
  });

  it.each([
    { name: 'iproute2', manager: 'apt-get', wanted: 'iproute2' },
    { name: 'iproute2', manager: 'dnf', wanted: 'iproute' },
    { name: 'iproute2', manager: 'apk', wanted: 'iproute2' },
    { name: 'Python', manager: 'apt-get', wanted: 'python3-pip' },
    { name: 'Python', manager: 'dnf', wanted: 'python3-pip' },
    { name: 'Python', manager: 'apk', wanted: 'py3-pip' },
  ])('gets $name with $manager as $wanted', ({ name, manager, wanted }) => {
    const { attempts, advice } = plan(name, { commands: [manager] });
    expect(attempts).toHaveLength(1);
    expect([attempts[0][0], attempts[0].at(-1)]).toEqual([manager, wanted]);
    expect(advice).toBe(`${manager} install ${wanted}`);
  });

  it('wants pip with Python', () => {
    const { advice } = plan('Python', { commands: ['python3', 'apt-get'] });
    expect(advice).toBe('apt-get install python3-pip');
  });

  it('only advises a user who may not install', () => {
    expect(plan('iproute2', { commands: ['apt-get'], uid: 1000 })).toEqual({
      advice: 'sudo apt-get install iproute2',
    });
  });

  it('names the tool where no manager is known', () => {
    expect(plan('Python', { commands: [] })).toEqual({ advice: 'install Python' });
  });
});
