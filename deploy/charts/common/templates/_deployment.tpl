{{/*
One app. Beside root and component: port, metricsPort (0 = none), args, env (list), ready and live (paths), config
(text of a file, mounted at /etc/llm-d/config.yaml), ports (further ones).
*/}}
{{- define "common.deployment" -}}
{{- $values := .root.Values -}}
{{- $config := .config | default "" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "common.fullname" . }}
  labels: {{- include "common.labels" . | nindent 4 }}
spec:
  {{- if eq $values.autoscaling.mode "none" }}
  replicas: {{ $values.replicaCount }}
  {{- end }}
  revisionHistoryLimit: 5
  minReadySeconds: 5
  progressDeadlineSeconds: 300
  strategy:
    type: RollingUpdate
    rollingUpdate: { maxUnavailable: 0, maxSurge: 25% }
  selector:
    matchLabels: {{- include "common.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "common.labels" . | nindent 8 }}
        {{- with .podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $values.podLabels }}
        {{- tpl (toYaml .) $.root | nindent 8 }}
        {{- end }}
      {{- if or $config $values.podAnnotations }}
      annotations:
        {{- if $config }}
        checksum/config: {{ sha256sum $config }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- tpl (toYaml .) $.root | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "common.serviceAccountName" . }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ include "common.graceSeconds" . }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      securityContext: {{- toYaml $values.podSecurityContext | nindent 8 }}
      {{- if $values.topologySpread }}
      topologySpreadConstraints:
        {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
        - maxSkew: 1
          topologyKey: {{ $key }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "common.selectorLabels" $ | nindent 14 }}
          matchLabelKeys: [pod-template-hash]
        {{- end }}
      {{- end }}
      {{- with $values.affinity }}
      affinity: {{- tpl (toYaml .) $.root | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.initContainers }}
      initContainers: {{- tpl (toYaml .) $.root | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "common.image" . }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          securityContext: {{- toYaml $values.containerSecurityContext | nindent 12 }}
          {{- with .args }}
          args: {{- toYaml . | nindent 12 }}
          {{- end }}
          env:
            {{- with include "common.heapMb" . }}
            - { name: NODE_OPTIONS, value: --max-old-space-size={{ . }} }
            {{- end }}
            {{- with .env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            {{- range $name, $value := $values.env }}
            - { name: {{ $name }}, value: {{ tpl (toString $value) $.root | quote }} }
            {{- end }}
            {{- with $values.extraEnv }}
            {{- tpl (toYaml .) $.root | nindent 12 }}
            {{- end }}
          {{- with $values.extraEnvFrom }}
          envFrom: {{- tpl (toYaml .) $.root | nindent 12 }}
          {{- end }}
          ports:
            - { name: http, containerPort: {{ .port }}, protocol: TCP }
            {{- if .metricsPort }}
            - { name: metrics, containerPort: {{ .metricsPort }}, protocol: TCP }
            {{- end }}
            {{- range .ports }}
            - { name: {{ .name }}, containerPort: {{ .port }}, protocol: TCP }
            {{- end }}
          startupProbe: {{- include "common.probe" (dict "path" .live "probe" $values.probes.startup) | nindent 12 }}
          readinessProbe: {{- include "common.probe" (dict "path" .ready "probe" $values.probes.readiness) | nindent 12 }}
          livenessProbe: {{- include "common.probe" (dict "path" .live "probe" $values.probes.liveness) | nindent 12 }}
          resources: {{- toYaml $values.resources | nindent 12 }}
          volumeMounts:
            - { name: tmp, mountPath: /tmp }
            {{- if $config }}
            - { name: config, mountPath: /etc/llm-d, readOnly: true }
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- tpl (toYaml .) $.root | nindent 12 }}
            {{- end }}
        {{- with $values.extraContainers }}
        {{- tpl (toYaml .) $.root | nindent 8 }}
        {{- end }}
      volumes:
        - { name: tmp, emptyDir: { sizeLimit: 64Mi } }
        {{- if $config }}
        - { name: config, configMap: { name: {{ include "common.fullname" . }} } }
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- tpl (toYaml .) $.root | nindent 8 }}
        {{- end }}
{{- end -}}

{{/* A probe of the values; where it names no action of its own, GET path. */}}
{{- define "common.probe" -}}
{{- $own := or (hasKey .probe "httpGet") (hasKey .probe "exec") (hasKey .probe "tcpSocket") (hasKey .probe "grpc") -}}
{{- if $own }}{{ toYaml .probe }}{{ else }}{{ toYaml (merge (dict "httpGet" (dict "path" .path "port" "http")) .probe) }}{{ end -}}
{{- end -}}
