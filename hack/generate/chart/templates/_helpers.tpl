{{- define "operator.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
The name of an object that belongs to no namespace: (dict "root" $ "name" "a-cluster"). It ends with the namespace of the release,
so that releases in two namespaces share none.
*/}}
{{- define "operator.clusterName" -}}
{{ .name }}.{{ .root.Release.Namespace }}
{{- end -}}

{{/* The name of the ValidatingWebhookConfiguration. */}}
{{- define "operator.webhooks" -}}
{{ include "operator.clusterName" (dict "root" . "name" (include "operator.fullname" .)) }}
{{- end -}}

{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: zeroinfra
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* The reference of an image: (dict "image" .Values.image "root" $). */}}
{{- define "operator.image" -}}
{{- with .image.registry }}{{ . }}/{{ end }}{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}

{{/* What every pod of the chart may do on its node: nothing. */}}
{{- define "operator.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "operator.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The subject of every binding. */}}
{{- define "operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "operator.fullname" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* A cluster-wide role and its binding: (dict "root" $ "suffix" "engine" "rules" list). */}}
{{- define "operator.clusterRole" -}}
{{- $name := include "operator.clusterName" (dict "root" .root "name" (printf "%s-%s" (include "operator.fullname" .root) .suffix)) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "operator.labels" .root | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "operator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  {{- include "operator.subjects" .root | nindent 2 }}
{{- end -}}

{{/* A role in one namespace and its binding: (dict "root" $ "namespace" "a" "suffix" "engine" "rules" list). */}}
{{- define "operator.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "operator.fullname" .root }}-{{ .suffix }}
  namespace: {{ .namespace }}
  labels:
    {{- include "operator.labels" .root | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "operator.fullname" .root }}-{{ .suffix }}
  namespace: {{ .namespace }}
  labels:
    {{- include "operator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "operator.fullname" .root }}-{{ .suffix }}
subjects:
  {{- include "operator.subjects" .root | nindent 2 }}
{{- end -}}

{{/* What the webhooks share: (dict "root" $ "path" "/validate/applications" "failurePolicy" "Ignore"). */}}
{{- define "operator.webhook" -}}
admissionReviewVersions: [v1]
sideEffects: None
failurePolicy: {{ .failurePolicy }}
timeoutSeconds: {{ .root.Values.webhooks.timeoutSeconds }}
matchPolicy: Equivalent
clientConfig:
  service:
    name: {{ include "operator.fullname" .root }}-webhook
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: 443
{{- with .root.Values.watchNamespaces }}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values:
        {{- toYaml (uniq .) | nindent 8 }}
{{- end }}
matchConditions:
  - name: changes-the-spec
    expression: request.operation == 'CREATE' || !has(oldObject.spec) || object.spec != oldObject.spec
  - name: is-to-stay
    expression: "!has(object.metadata.deletionTimestamp)"
  - name: is-not-by-the-operator
    expression: request.userInfo.username != 'system:serviceaccount:{{ .root.Release.Namespace }}:{{ include "operator.fullname" .root }}'
{{- end -}}
