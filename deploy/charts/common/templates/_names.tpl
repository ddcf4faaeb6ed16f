{{/*
Every template takes a dict with `root` (the chart's $) and `component` (the app's name). Under an alias
.Chart.Name is the alias, which is no name that Kubernetes takes, so nothing here reads it.
*/}}
{{- define "common.fullname" -}}
{{- .root.Values.fullnameOverride | default (printf "%s-%s" .root.Release.Name .component) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "common.selectorLabels" -}}
app.kubernetes.io/name: {{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "common.labels" -}}
{{ include "common.selectorLabels" . }}
app.kubernetes.io/part-of: llm-d-coordinator
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .component .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ tpl (toYaml .) $.root }}
{{- end }}
{{- end -}}

{{- define "common.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := .root.Values.global.imageRegistry | default $image.registry -}}
{{- $name := $image.repository -}}
{{- if $registry }}{{ $name = printf "%s/%s" $registry $image.repository }}{{ end -}}
{{- if $image.digest }}{{ printf "%s@%s" $name $image.digest }}{{ else }}{{ printf "%s:%s" $name ($image.tag | default .root.Chart.AppVersion) }}{{ end -}}
{{- end -}}

{{- define "common.serviceAccountName" -}}
{{- $account := .root.Values.serviceAccount -}}
{{- if $account.create }}{{ $account.name | default (include "common.fullname" .) }}{{ else }}{{ $account.name | default "default" }}{{ end -}}
{{- end -}}

{{/* Drain, then requests in flight, then five seconds to end: so that it cannot drift from what the app does. */}}
{{- define "common.graceSeconds" -}}
{{- add .root.Values.shutdown.drainSeconds .root.Values.shutdown.timeoutSeconds 5 -}}
{{- end -}}

{{/* Three quarters of the memory limit for the heap of JavaScript, in MB. */}}
{{- define "common.heapMb" -}}
{{- $limit := dig "limits" "memory" "" .root.Values.resources | toString -}}
{{- if hasSuffix "Gi" $limit }}{{ mulf (trimSuffix "Gi" $limit | float64) 768 | int }}
{{- else if hasSuffix "Mi" $limit }}{{ mulf (trimSuffix "Mi" $limit | float64) 0.75 | int }}
{{- end -}}
{{- end -}}

{{/* Fails with what to do when the cluster does not have what a value needs. Takes root, api, value, what. */}}
{{- define "common.needs" -}}
{{- if not (.root.Capabilities.APIVersions.Has .api) -}}
{{- fail (printf "%s needs %s, and this cluster does not have %s. Install it or change the value. (helm template: --api-versions %s)" .value .what .api .api) -}}
{{- end -}}
{{- end -}}

{{/* Value of a variable with the URL of the queue's Redis. */}}
{{- define "common.redisUrl" -}}
{{- $redis := .Values.global.redis | default dict -}}
{{- if $redis.existingSecret -}}
valueFrom: { secretKeyRef: { name: {{ tpl $redis.existingSecret . }}, key: {{ $redis.key | default "url" }} } }
{{- else -}}
value: {{ tpl (required "global.redis: existingSecret with the URL of the queue's Redis, or url" $redis.url) . | quote }}
{{- end -}}
{{- end -}}

{{/* Value of a variable with the token of the media fetcher. */}}
{{- define "common.mediaToken" -}}
{{- $token := .Values.global.mediaToken | default dict -}}
valueFrom: { secretKeyRef: { name: {{ tpl (required "global.mediaToken.existingSecret: a Secret with the token that coordinators show to the media fetcher" $token.existingSecret) . }}, key: {{ $token.key | default "token" }} } }
{{- end -}}
