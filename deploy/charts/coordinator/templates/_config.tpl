{{/* Address of the render service. */}}
{{- define "coordinator.renderAddress" -}}
{{- .Values.renderAddress | default (printf "http://%s-render-shim:8082" .Release.Name) -}}
{{- end -}}

{{/* The steps of the parts in use. */}}
{{- define "coordinator.steps" -}}
{{- $pipeline := .Values.config.pipeline | default dict -}}
{{- if .Values.queue.enabled }}
- type: async-broker
  params: {{- toYaml .Values.queue.params | nindent 4 }}
{{- end }}
- type: replace-media-urls
{{- if eq .Values.media.mode "remote" }}
  params:
    mode: remote
    address: {{ .Values.media.address | default (printf "http://%s-media-fetcher:8083" .Release.Name) }}
{{- end }}
- type: render
  params:
    address: {{ include "coordinator.renderAddress" . }}
    # Image tensors only where legs carry token ids.
    mm_payload: auto
{{- if .Values.conditionalDecode.enabled }}
- type: conditional-decode
  params: {{- toYaml .Values.conditionalDecode.params | nindent 4 }}
{{- end }}
- type: encode
{{- if eq ($pipeline.kv_connector | default "kv-nixl") "kv-sglang" }}
- type: prefill-decode
{{- else }}
- type: prefill
- type: decode
{{- end }}
{{- end -}}

{{/* Secrets of the steps, by their variables. */}}
{{- define "coordinator.env" -}}
{{- if .Values.queue.enabled }}
- name: COORDINATOR_PIPELINE_STEPS_0_PARAMS_REDIS_URL
  {{- include "common.redisUrl" . | nindent 2 }}
{{- end }}
{{- if eq .Values.media.mode "remote" }}
- name: COORDINATOR_PIPELINE_STEPS_{{ ternary 1 0 .Values.queue.enabled }}_PARAMS_TOKEN
  {{- include "common.mediaToken" . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The file: what the chart knows, then the values' config over it. */}}
{{- define "coordinator.config" -}}
{{- $server := .Values.config.server | default dict -}}
{{- range $key, $value := dict "listen_addr" "the port is 8080" "metrics_port" "it is 9090" "drain_delay" "set shutdown.drainSeconds" "shutdown_timeout" "set shutdown.timeoutSeconds" -}}
{{- if hasKey $server $key }}{{ fail (printf "config.server.%s: %s" $key $value) }}{{ end -}}
{{- end -}}
{{- if and (dig "pipeline" "steps" "" .Values.config) (or .Values.queue.enabled .Values.conditionalDecode.enabled (eq .Values.media.mode "remote")) -}}
{{- fail "config.pipeline.steps replaces all steps: write async-broker, conditional-decode and the params of replace-media-urls there, and leave queue.enabled, conditionalDecode.enabled and media.mode as they are" -}}
{{- end -}}
{{- $gateway := .Values.config.gateway | default dict -}}
{{- $address := $gateway.address | default .Values.global.gatewayAddress -}}
{{- $_ := required "config.gateway.address: the address of the gateway's listener for phases, such as http://inference-gateway-internal" $address -}}
{{- $times := dict "drain_delay" (printf "%ds" (int .Values.shutdown.drainSeconds)) "shutdown_timeout" (printf "%ds" (int .Values.shutdown.timeoutSeconds)) -}}
{{- $written := dict
  "server" (merge $times (dict "listen_addr" ":8080" "metrics_port" 9090))
  "gateway" (dict "address" (tpl $address .))
  "pipeline" (dict "steps" (include "coordinator.steps" . | fromYamlArray)) -}}
{{- $own := deepCopy .Values.config -}}
{{- if not $gateway.address }}{{ $own = set $own "gateway" (omit $gateway "address") }}{{ end -}}
{{- toYaml (mergeOverwrite $written $own) -}}
{{- end -}}
