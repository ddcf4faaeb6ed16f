{{/* Everything of an app beside its Deployment; takes what common.deployment takes, and peers: ingress and egress rules. */}}
{{- define "common.app" -}}
{{ include "common.deployment" . }}
---
{{ include "common.service" . }}
{{- if .root.Values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "common.serviceAccountName" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- if .config }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "common.fullname" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
data:
  config.yaml: |
    {{- .config | nindent 4 }}
{{- end }}
{{- with include "common.pdb" . }}
---
{{ . }}
{{- end }}
{{- with include "common.autoscaler" . }}
---
{{ . }}
{{- end }}
{{- with include "common.networkPolicy" . }}
---
{{ . }}
{{- end }}
{{- with include "common.serviceMonitor" . }}
---
{{ . }}
{{- end }}
{{- range .root.Values.extraObjects }}
---
{{ tpl (toYaml .) $.root }}
{{- end }}
{{- end -}}

{{- define "common.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "common.fullname" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
spec:
  selector: {{- include "common.selectorLabels" . | nindent 4 }}
  ports:
    - { name: http, port: {{ .port }}, targetPort: http, protocol: TCP, appProtocol: http }
    {{- if .metricsPort }}
    - { name: metrics, port: {{ .metricsPort }}, targetPort: metrics, protocol: TCP, appProtocol: http }
    {{- end }}
    {{- range .ports }}
    - { name: {{ .name }}, port: {{ .port }}, targetPort: {{ .name }}, protocol: TCP }
    {{- end }}
{{- end -}}

{{/* None for a single replica: it would block drains for ever. */}}
{{- define "common.pdb" -}}
{{- $values := .root.Values -}}
{{- $replicas := ternary $values.replicaCount $values.autoscaling.minReplicas (eq $values.autoscaling.mode "none") | int -}}
{{- if and $values.pdb.enabled (gt $replicas 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "common.fullname" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
spec:
  {{- if hasKey $values.pdb "minAvailable" }}
  minAvailable: {{ $values.pdb.minAvailable }}
  {{- else }}
  maxUnavailable: {{ $values.pdb.maxUnavailable | default 1 }}
  {{- end }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "common.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{- define "common.autoscaler" -}}
{{- $scaling := .root.Values.autoscaling -}}
{{- if eq $scaling.mode "hpa" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "common.fullname" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ include "common.fullname" . }} }
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  metrics: {{- toYaml $scaling.hpa.metrics | nindent 4 }}
  behavior: {{- toYaml $scaling.hpa.behavior | nindent 4 }}
{{- else if eq $scaling.mode "keda" -}}
{{- include "common.needs" (dict "root" .root "api" "keda.sh/v1alpha1/ScaledObject" "value" "autoscaling.mode: keda" "what" "KEDA") -}}
{{- $keda := $scaling.keda -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ include "common.fullname" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { name: {{ include "common.fullname" . }} }
  minReplicaCount: {{ $scaling.minReplicas }}
  maxReplicaCount: {{ $scaling.maxReplicas }}
  pollingInterval: {{ $keda.pollingIntervalSeconds }}
  cooldownPeriod: {{ $keda.cooldownSeconds }}
  # Without metrics it keeps this many: an outage of monitoring must not take the service away.
  fallback: { failureThreshold: 3, replicas: {{ $keda.fallbackReplicas }} }
  triggers:
    - type: prometheus
      metadata:
        serverAddress: {{ required "autoscaling.keda.serverAddress: the address of Prometheus" $keda.serverAddress }}
        query: {{ tpl $keda.query .root | quote }}
        threshold: {{ $keda.threshold | toString | quote }}
{{- end -}}
{{- end -}}

{{- define "common.networkPolicy" -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- if $policy.enabled -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "common.fullname" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "common.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - ports: [{ port: {{ .port }}, protocol: TCP }]
      {{- with concat (.ingressFrom | default list) $policy.ingressFrom }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- if .ports }}
    - ports:
        {{- range .ports }}
        - { port: {{ .port }}, protocol: TCP }
        {{- end }}
      {{- with .portsFrom }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- if or .metricsPort .metricsOnHttp }}
    - ports: [{ port: {{ .metricsPort | default .port }}, protocol: TCP }]
      {{- with $policy.metricsFrom }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- with $policy.extraIngress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  egress:
    - to: [{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: kube-system } } }]
      ports: [{ port: 53, protocol: UDP }, { port: 53, protocol: TCP }]
    {{- with .egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with $policy.extraEgress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
{{- end -}}

{{- define "common.serviceMonitor" -}}
{{- $monitor := .root.Values.metrics.serviceMonitor -}}
{{- if and (or .metricsPort .metricsOnHttp) $monitor.enabled -}}
{{- include "common.needs" (dict "root" .root "api" "monitoring.coreos.com/v1/ServiceMonitor" "value" "metrics.serviceMonitor.enabled" "what" "the Prometheus operator") -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "common.fullname" . }}
  labels:
    {{- include "common.labels" . | nindent 4 }}
    {{- with $monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  # The job of the alerts.
  jobLabel: app.kubernetes.io/name
  selector:
    matchLabels: {{- include "common.selectorLabels" . | nindent 6 }}
  endpoints:
    - { port: {{ ternary "http" "metrics" (not .metricsPort) }}, interval: {{ $monitor.interval }} }
{{- end -}}
{{- end -}}

{{/* What a pod may reach where it fetches from the Internet: no private range, and no port but 80 and 443. */}}
{{- define "common.internetEgress" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: {{- toJson (concat (list "0.0.0.0/8" "10.0.0.0/8" "100.64.0.0/10" "127.0.0.0/8" "169.254.0.0/16" "172.16.0.0/12" "192.168.0.0/16") .blocked4) | nindent 10 }}
    - ipBlock:
        cidr: ::/0
        except: {{- toJson (concat (list "::1/128" "64:ff9b::/96" "fc00::/7" "fe80::/10") .blocked6) | nindent 10 }}
  ports: [{ port: 80, protocol: TCP }, { port: 443, protocol: TCP }]
{{- end -}}

{{/* Pods of another app of the release, as a peer of a policy. */}}
{{- define "common.peer" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/name: {{ .name }}
    app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}
