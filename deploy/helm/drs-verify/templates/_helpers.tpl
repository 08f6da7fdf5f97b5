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
