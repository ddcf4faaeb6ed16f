import { describe, expect, it } from '@jest/globals';
import { checkType } from './kubernetes-types.ts';
import { podOf, podProblems } from './pod-security.ts';

const service = (spec: object, more: object = {}) => ({
  ...{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec },
  ...more,
});

describe('the check of types', () => {
  it.each([
    ['a type that is wrong', service({ ports: [{ port: 'x' }] }), /port must be integer/],
    ['a value that is missing', service({ ports: [{ name: 'http' }] }), /required property port/],
    ['an unknown key', service({ ports: [{ port: 1, protocoll: 'TCP' }] }), /protocoll/],
    ['an unknown key at the top', service({}, { spek: {} }), /spek/],
    ['an unknown key of metadata', service({}, { metadata: { name: 'a', lables: {} } }), /lables/],
    ['a type nobody knows', { apiVersion: 'v1', kind: 'Servize' }, /no type for v1\/Servize/],
  ])('refuses %s', (_name, object, reason) => {
    expect(() => checkType(object)).toThrow(reason);
  });

  it('accepts labels of any name', () => {
    const metadata = { name: 'a', labels: { any: 'thing' } };
    expect(() => checkType(service({ ports: [{ port: 1 }] }, { metadata }))).not.toThrow();
  });
});

it('the check of pods refuses what the restricted standard refuses', () => {
  const pod = podOf({
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } },
    spec: {
      hostNetwork: true,
      volumes: [{ name: 'host', hostPath: { path: '/' } }],
      containers: [{ name: 'a', image: 'a:latest', securityContext: { privileged: true } }],
    },
  });
  expect(pod && podProblems(pod)).toEqual(
    expect.arrayContaining([
      ...['namespaces of the host', 'runAsNonRoot', 'seccompProfile', 'volume hostPath'],
      ...['a: privileged', 'a: allowPrivilegeEscalation', 'a: capabilities.drop'],
      'a: image a:latest',
    ]),
  );
});
