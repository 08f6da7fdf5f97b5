{{- define "drs-verify.labels" -}}
app.kubernetes.io/name: drs-verify
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "drs-verify.selector" -}}
app.kubernetes.io/name: drs-verify
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "drs-verify.scheme" -}}
{{ ternary "HTTPS" "HTTP" (ne .Values.tls.secretName "") }}
{{- end }}
{{- /* Where used invocations are recorded: in a place that all pods share, or in the only pod. */}}
{{- define "drs-verify.store" -}}
{{ ternary "redis" "memory" .Values.redis.enabled }}
{{- end }}
