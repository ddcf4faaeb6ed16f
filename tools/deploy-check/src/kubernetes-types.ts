import { HTTPRoute } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute';
import { ScaledObject } from '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject';
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule';
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { StatefulSet } from 'kubernetes-models/apps/v1/StatefulSet';
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { Pod } from 'kubernetes-models/v1/Pod';
import { Secret } from 'kubernetes-models/v1/Secret';
import { Service } from 'kubernetes-models/v1/Service';
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount';
import { z } from 'zod';

/** A class of kubernetes-models. */
type Model = new (data: never) => { validate(): void };

const models: Record<string, Model> = {
  'apps/v1/Deployment': Deployment,
  'apps/v1/StatefulSet': StatefulSet,
  'autoscaling/v2/HorizontalPodAutoscaler': HorizontalPodAutoscaler,
  'gateway.networking.k8s.io/v1/HTTPRoute': HTTPRoute,
  'keda.sh/v1alpha1/ScaledObject': ScaledObject,
  'monitoring.coreos.com/v1/PrometheusRule': PrometheusRule,
  'monitoring.coreos.com/v1/ServiceMonitor': ServiceMonitor,
  'networking.k8s.io/v1/NetworkPolicy': NetworkPolicy,
  'policy/v1/PodDisruptionBudget': PodDisruptionBudget,
  'v1/ConfigMap': ConfigMap,
  'v1/Pod': Pod,
  'v1/Secret': Secret,
  'v1/Service': Service,
  'v1/ServiceAccount': ServiceAccount,
};

/** No package has it; the fields of v1 that the chart sets. */
const inferencePool = z.strictObject({
  apiVersion: z.literal('inference.networking.k8s.io/v1'),
  kind: z.literal('InferencePool'),
  metadata: z.looseObject({ name: z.string() }),
  spec: z.strictObject({
    selector: z.strictObject({ matchLabels: z.record(z.string(), z.string()) }),
    targetPorts: z
      .array(z.strictObject({ number: z.int().min(1).max(65_535) }))
      .min(1)
      .max(8),
    endpointPickerRef: z.strictObject({
      group: z.string().optional(),
      kind: z.literal('Service'),
      name: z.string(),
      port: z.strictObject({ number: z.int().min(1).max(65_535) }),
      failureMode: z.enum(['FailOpen', 'FailClose']),
    }),
  }),
});

/**
 * Checks an object against its type: fields, their types and values, and keys that the type does not have.
 *
 * @throws Error that says what is wrong
 */
export function checkType(object: { apiVersion: string; kind: string }): void {
  const name = `${object.apiVersion}/${object.kind}`;
  if (object.kind === 'InferencePool') {
    inferencePool.parse(object);
    return;
  }
  const Type = models[name];
  if (!Type) throw new Error(`no type for ${name}`);
  // The schemas are compiled and read every key that the type has; a key that nobody reads is unknown.
  const read = new Set<string>();
  const model = watched(new Type(object as never), '', read) as { validate(): void };
  model.validate();
  const unknown = keysOf(object, '').filter((path) => !read.has(path));
  if (unknown.length > 0) throw new Error(`${name}: unknown ${unknown.join(', ')}`);
}

/** A view of a value that notes the paths of the members that are read. */
function watched(value: unknown, path: string, read: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return new Proxy(value, {
    get(target, key, receiver) {
      const member: unknown = Reflect.get(target, key, receiver);
      if (typeof key === 'symbol' || typeof member === 'function') return member;
      read.add(`${path}/${key}`);
      return watched(member, `${path}/${key}`, read);
    },
  });
}

const keysOf = (value: unknown, path: string): string[] =>
  typeof value === 'object' && value !== null
    ? Object.entries(value).flatMap(([key, member]) => [
        `${path}/${key}`,
        ...keysOf(member, `${path}/${key}`),
      ])
    : [];
