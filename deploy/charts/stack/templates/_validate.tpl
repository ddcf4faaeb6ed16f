{{- define "stack.labels" -}}
app.kubernetes.io/name: stack
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: llm-d-coordinator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "stack-%s" .Chart.Version }}
{{- end -}}

{{- define "stack.coordinatorName" -}}
{{- .Values.coordinator.fullnameOverride | default (printf "%s-coordinator" .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Values that contradict each other. */}}
{{- define "stack.validate" -}}
{{- if and (not .Values.renderShim.enabled) (not .Values.coordinator.renderAddress) (not (dig "pipeline" "steps" "" .Values.coordinator.config)) -}}
{{- fail "renderShim.enabled: false needs coordinator.renderAddress, the address of another render service" -}}
{{- end -}}
{{- if and .Values.mediaFetcher.enabled (ne .Values.coordinator.media.mode "remote") -}}
{{- fail "mediaFetcher.enabled: the coordinator does not use it; set coordinator.media.mode: remote" -}}
{{- end -}}
{{- if and (eq .Values.coordinator.media.mode "remote") (not .Values.mediaFetcher.enabled) (not .Values.coordinator.media.address) -}}
{{- fail "coordinator.media.mode: remote needs mediaFetcher.enabled, or coordinator.media.address" -}}
{{- end -}}
{{- if and .Values.asyncBroker.enabled (not .Values.coordinator.queue.enabled) (not (dig "pipeline" "steps" "" .Values.coordinator.config)) -}}
{{- fail "asyncBroker.enabled: nothing is queued; set coordinator.queue.enabled: true" -}}
{{- end -}}
{{- if and .Values.coordinator.queue.enabled (not .Values.asyncBroker.enabled) -}}
{{- fail "coordinator.queue.enabled: nobody runs what is queued; set asyncBroker.enabled: true" -}}
{{- end -}}
{{- if and .Values.gatewaySim.enabled (not .Values.workerSim.enabled) -}}
{{- fail "gatewaySim.enabled needs workerSim.enabled: it knows no other workers" -}}
{{- end -}}
{{- if and (eq .Values.pool.failureMode "FailOpen") .Values.pool.create -}}
{{- fail "pool.failureMode: FailOpen would send phases to pods of any role; use FailClose" -}}
{{- end -}}
{{- if .Values.routing.enabled -}}
{{- include "common.needs" (dict "root" . "api" "gateway.networking.k8s.io/v1/HTTPRoute" "value" "routing.enabled" "what" "the Gateway API") -}}
{{- $public := .Values.routing.public -}}
{{- $internal := .Values.routing.internal -}}
{{- if and (eq .Values.routing.strategy "split") (eq (toJson $public) (toJson $internal)) -}}
{{- fail "routing.internal: with strategy split it must be another listener than routing.public, or clients could play a phase" -}}
{{- end -}}
{{- end -}}
{{- if .Values.pool.create -}}
{{- include "common.needs" (dict "root" . "api" "inference.networking.k8s.io/v1/InferencePool" "value" "pool.create" "what" "the Gateway API Inference Extension") -}}
{{- end -}}
{{- if .Values.monitoring.rules.enabled -}}
{{- include "common.needs" (dict "root" . "api" "monitoring.coreos.com/v1/PrometheusRule" "value" "monitoring.rules.enabled" "what" "the Prometheus operator") -}}
{{- end -}}
{{- end -}}
