// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// Task is what runs: exactly one of container, script, http and workflow. The fields of the first three are those of
// the steps of that name of an Operation; placeholders in texts are CEL.
// +kubebuilder:validation:XValidation:rule="[has(self.container), has(self.script), has(self.http), has(self.workflow)].filter(x, x).size() == 1",message="set exactly one of container, script, http and workflow"
type Task struct {
	// container runs an image in a pod.
	// +optional
	Container *ContainerTask `json:"container,omitempty"`
	// script runs a program that is written here in a pod.
	// +optional
	Script *ScriptTask `json:"script,omitempty"`
	// http makes a call.
	// +optional
	HTTP *HTTPTask `json:"http,omitempty"`
	// workflow runs the tasks of a Workflow.
	// +optional
	Workflow *WorkflowRun `json:"workflow,omitempty"`
}

// WorkflowRun is a run of the tasks of a Workflow.
type WorkflowRun struct {
	// templateFrom names a Workflow in the same namespace whose tasks, onExit and parameters each run has. Its
	// serviceAccountName is the same as that of the CronJob, so that nobody changes tasks who may not use the account.
	// +required
	TemplateFrom WorkflowTemplate `json:"templateFrom"`
	// arguments are the values of parameters, by name. Parameters scheduledTime and idempotencyKey have those of the run.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="!('scheduledTime' in self) && !('idempotencyKey' in self)",message="scheduledTime and idempotencyKey are those of the run: leave them out"
	Arguments map[string]Argument `json:"arguments,omitempty"`
	// parallelism is how many container, script and http tasks are under way at a time. No limit when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Parallelism *int32 `json:"parallelism,omitempty"`
}

// PodTask is what a container and a script have in common: one pod for each attempt.
type PodTask struct {
	// image of the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// env of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []EnvVar `json:"env,omitempty"`
	// resources of the container. Requests of 50m and 64Mi when left out.
	// +optional
	Resources Resources `json:"resources,omitzero"`
	// mounts of the container beside /tmp.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=32
	Mounts []Mount `json:"mounts,omitempty"`
	// serviceAccountName is the account whose token the pod has. None when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// nodeSelector of the pod.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of taints of nodes, for example of those with GPUs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// priorityClassName of the pod.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// runAsUser is the numeric ID of the user. That of the image when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RunAsUser *int64 `json:"runAsUser,omitempty"`
	// fsGroup is the numeric ID of the group that may write to the volumes of claims. They stay as they are when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	FSGroup *int64 `json:"fsGroup,omitempty"`
	// confinement of the pod: Restricted takes no root user and allows writes to /tmp and the mounts only, Baseline allows
	// both. Default Restricted.
	// +optional
	// +kubebuilder:validation:Enum=Restricted;Baseline
	Confinement string `json:"confinement,omitempty"`
	// outputs are lines NAME=VALUE that the container writes to /dev/termination-log, 4096 bytes in all: the CUE
	// constraint of each value, which is at most 1024 characters long, by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Outputs map[string]string `json:"outputs,omitempty"`
}

// Resources of a container. GPUs and other extended resources stand in limits.
type Resources struct {
	// requests by resource.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// limits by resource.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// EnvVar is one variable: a value, or a key of a Secret or a ConfigMap.
// +kubebuilder:validation:XValidation:rule="[has(self.value), has(self.secret), has(self.configMap)].filter(x, x).size() <= 1",message="set at most one of value, secret and configMap"
type EnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
	// secret that has the value.
	// +optional
	Secret *KeyReference `json:"secret,omitempty"`
	// configMap that has the value.
	// +optional
	ConfigMap *KeyReference `json:"configMap,omitempty"`
}

// KeyReference is a key of a Secret or a ConfigMap in the same namespace.
type KeyReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key within the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Mount is a volume in the container.
// +kubebuilder:validation:XValidation:rule="[has(self.claim), has(self.configMap), has(self.secret), has(self.scratch)].filter(x, x).size() == 1",message="set exactly one of claim, configMap, secret and scratch"
type Mount struct {
	// path in the container.
	// +required
	// +kubebuilder:validation:Pattern=`^/[^\s:]*$`
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`
	// subPath within the volume.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	SubPath string `json:"subPath,omitempty"`
	// readOnly refuses writes.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// claim is the name of a PersistentVolumeClaim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Claim string `json:"claim,omitempty"`
	// configMap is the name of a ConfigMap.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap,omitempty"`
	// secret is the name of a Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
	// scratch is the size limit of a volume that goes with the pod, for example 1Gi.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?([KMGT]i?)?$`
	// +kubebuilder:validation:MaxLength=32
	Scratch string `json:"scratch,omitempty"`
}

// ContainerTask runs an image.
type ContainerTask struct {
	PodTask `json:",inline"`
	// command in place of that of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Command []string `json:"command,omitempty"`
	// args in place of those of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Args []string `json:"args,omitempty"`
}

// ScriptTask runs a program. The program holds no placeholders: pass values in env or args.
type ScriptTask struct {
	PodTask `json:",inline"`
	// interpreter takes the program as its last argument, for example [python3, -c]. Default [/bin/sh, -ec].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Interpreter []string `json:"interpreter,omitempty"`
	// source of the program.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Source string `json:"source"`
	// args of the program.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Args []string `json:"args,omitempty"`
}

// HTTPTask makes a call. Redirects are answers.
type HTTPTask struct {
	// method of the call. Default GET.
	// +optional
	// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS
	Method string `json:"method,omitempty"`
	// url to call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	URL string `json:"url"`
	// headers of the call.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Headers []HTTPHeader `json:"headers,omitempty"`
	// body of the call.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Body string `json:"body,omitempty"`
	// authority is the key of a ConfigMap with the certificates, in PEM, that the server's is checked against. Those of
	// the operator's image when left out.
	// +optional
	Authority *KeyReference `json:"authority,omitempty"`
	// within is how long the call may take, at most 10m. Default 30s.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]+(h|m|s|ms))+$`
	// +kubebuilder:validation:MaxLength=20
	Within string `json:"within,omitempty"`
	// status are the codes that are a success. Default 200 to 299.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Status []int32 `json:"status,omitempty"`
	// check is a CEL expression over response, which has status, headers, body and json; where it gives false, the task
	// fails.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Check string `json:"check,omitempty"`
	// outputs are CEL expressions over response.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Outputs map[string]string `json:"outputs,omitempty"`
}

// HTTPHeader is one header: a value, or a key of a Secret.
// +kubebuilder:validation:XValidation:rule="!(has(self.value) && has(self.secret))",message="set at most one of value and secret"
// +kubebuilder:validation:XValidation:rule="!has(self.prefix) || has(self.secret)",message="prefix is for a secret"
type HTTPHeader struct {
	// name of the header.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]+$`
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// value of the header.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Value string `json:"value,omitempty"`
	// prefix of the secret, for example "Bearer ".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Prefix string `json:"prefix,omitempty"`
	// secret that has the value.
	// +optional
	Secret *KeyReference `json:"secret,omitempty"`
}
