import { z } from 'zod';
import { type RenderedObject } from './charts.ts';

const containerSchema = z.looseObject({
  name: z.string(),
  image: z.string(),
  securityContext: z
    .looseObject({
      allowPrivilegeEscalation: z.boolean().optional(),
      privileged: z.boolean().optional(),
      readOnlyRootFilesystem: z.boolean().optional(),
      capabilities: z
        .looseObject({
          drop: z.array(z.string()).prefault([]),
          add: z.array(z.string()).optional(),
        })
        .prefault({}),
    })
    .prefault({}),
  resources: z
    .looseObject({
      requests: z.record(z.string(), z.unknown()).prefault({}),
      limits: z.record(z.string(), z.unknown()).prefault({}),
    })
    .prefault({}),
});

const podSchema = z.looseObject({
  hostNetwork: z.boolean().optional(),
  hostPID: z.boolean().optional(),
  hostIPC: z.boolean().optional(),
  automountServiceAccountToken: z.boolean().optional(),
  terminationGracePeriodSeconds: z.number().optional(),
  securityContext: z
    .looseObject({
      runAsNonRoot: z.boolean().optional(),
      runAsUser: z.number().nullish(),
      seccompProfile: z.looseObject({ type: z.string() }).optional(),
    })
    .prefault({}),
  containers: z.array(containerSchema),
  initContainers: z.array(containerSchema).prefault([]),
  volumes: z.array(z.record(z.string(), z.unknown())).prefault([]),
});

/** What a pod is made of. */
export type PodSpec = z.output<typeof podSchema>;

/** The pod that an object makes, or is; undefined for others. */
export function podOf({ kind, spec }: RenderedObject): PodSpec | undefined {
  if (kind === 'Pod') return podSchema.parse(spec);
  const template = z.looseObject({ template: z.looseObject({ spec: podSchema }) }).safeParse(spec);
  return template.success ? template.data.template.spec : undefined;
}

const volumeKinds = [
  'configMap',
  'emptyDir',
  'secret',
  'projected',
  'downwardAPI',
  'csi',
  'ephemeral',
  'persistentVolumeClaim',
];

/** What of a pod breaks the restricted Pod Security Standard, and the house's rules beyond it. */
export function podProblems(pod: PodSpec): string[] {
  const problems: string[] = [];
  const expect = (isKept: boolean, rule: string): void => {
    if (!isKept) problems.push(rule);
  };
  expect(!pod.hostNetwork && !pod.hostPID && !pod.hostIPC, 'namespaces of the host');
  expect(pod.securityContext.runAsNonRoot === true, 'runAsNonRoot');
  expect(pod.securityContext.runAsUser !== 0, 'runAsUser 0');
  expect(pod.securityContext.seccompProfile?.type === 'RuntimeDefault', 'seccompProfile');
  expect(pod.automountServiceAccountToken === false, 'automountServiceAccountToken');
  for (const volume of pod.volumes) {
    const kinds = Object.keys(volume).filter((key) => key !== 'name');
    expect(
      kinds.every((kind) => volumeKinds.includes(kind)),
      `volume ${kinds.join()}`,
    );
  }
  for (const { name, image, securityContext: own, resources } of [
    ...pod.containers,
    ...pod.initContainers,
  ]) {
    expect(own.allowPrivilegeEscalation === false, `${name}: allowPrivilegeEscalation`);
    expect(own.privileged !== true, `${name}: privileged`);
    expect(own.readOnlyRootFilesystem === true, `${name}: readOnlyRootFilesystem`);
    expect(own.capabilities.drop.includes('ALL'), `${name}: capabilities.drop`);
    expect((own.capabilities.add ?? []).length === 0, `${name}: capabilities.add`);
    expect(/@sha256:|:(?!latest$)[\w.-]+$/.test(image), `${name}: image ${image}`);
    expect('cpu' in resources.requests && 'memory' in resources.requests, `${name}: requests`);
    expect('memory' in resources.limits, `${name}: memory limit`);
    expect(!('cpu' in resources.limits), `${name}: CPU limit`);
  }
  return problems;
}
