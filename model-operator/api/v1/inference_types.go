// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// InferenceSpec describes servers of one version of a Model.
// +kubebuilder:validation:XValidation:rule="has(self.version)",fieldPath=".version",message="version is required: a release line of the runtime, such as 0.7 of llama-cpp"
// +kubebuilder:validation:XValidation:rule="!has(self.storage)",message="an Inference has no volumes: take storage out"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptVolumes)",message="an Inference has no volumes to adopt: take adoptVolumes out"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom)",message="an Inference has no volumes for the data of a Backup: take restoreFrom out"
// +kubebuilder:validation:XValidation:rule="!has(self.deletionPolicy) || self.deletionPolicy == 'Retain'",message="deletionPolicy is of volumes, and an Inference has none: take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.tls)",message="servers of models do not read a renewed certificate: take tls out, and let ingress or httpRoute speak TLS"
// +kubebuilder:validation:XValidation:rule="!has(self.apiKeySecretRef) || !has(self.healthCheck) || !has(self.healthCheck.path) || self.healthCheck.path in ['/health', '/v1/health', '/v2/health/ready']",fieldPath=".healthCheck.path",message="with apiKeySecretRef healthCheck.path must be /health, /v1/health or /v2/health/ready: other paths are behind the API key"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !self.parameters.exists(name, name.startsWith('model.') || name.startsWith('health.') || name.startsWith('drain.') || name.startsWith('route.'))",fieldPath=".parameters",message="parameters that begin with model., health., drain. or route. are set by the fields modelRef, adapters, healthCheck, drainTimeout, ingress and httpRoute: take them out"
// +kubebuilder:validation:XValidation:rule="(has(self.maxReplicas) && self.maxReplicas > 0) == (has(self.minReplicas) && self.minReplicas > 0)",message="set minReplicas and maxReplicas together; 0, or neither of them, is no autoscaling"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas cannot be above maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.maxReplicas) || self.maxReplicas == 0 || has(self.minReplicas) && self.replicas >= self.minReplicas && self.replicas <= self.maxReplicas",message="replicas must be between minReplicas and maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.cpuUtilization) || has(self.maxReplicas) && self.maxReplicas > 0",message="cpuUtilization is for autoscaling: set minReplicas and maxReplicas, or take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryUtilization) || has(self.maxReplicas) && self.maxReplicas > 0",message="memoryUtilization is for autoscaling: set minReplicas and maxReplicas, or take it out"
// +kubebuilder:validation:XValidation:rule="!has(self.metrics) || has(self.maxReplicas) && self.maxReplicas > 0",message="metrics are for autoscaling: set minReplicas and maxReplicas, or take them out"
// +kubebuilder:validation:XValidation:rule="!has(self.metrics) || has(self.monitoring) && has(self.monitoring.enabled) && self.monitoring.enabled",message="autoscaling by metrics needs a Prometheus that reads the pods: set monitoring.enabled, or take metrics out"
// +kubebuilder:validation:XValidation:rule="!has(self.gpus) || !has(self.resources) || !has(self.resources.limits) || !(self.gpus.resourceName in self.resources.limits)",message="gpus and resources.limits name the same resource: take one of them out"
// +kubebuilder:validation:XValidation:rule="!has(self.networkPolicy) || !has(self.networkPolicy.from) || size(self.networkPolicy.from) == 0 || !has(self.canary) || !has(self.canary.gate) || !has(self.canary.gate.maxErrorRate) && !has(self.canary.gate.maxTimePerToken) && !has(self.canary.gate.maxTimePerRequest)",fieldPath=".canary.gate",message="networkPolicy.from keeps the operator from measuring the canary: take it out, or maxErrorRate, maxTimePerToken and maxTimePerRequest"
// +kubebuilder:validation:XValidation:rule="!has(self.idle) || !has(self.canary)",fieldPath=".idle",message="a canary is measured by requests, and has servers all the time: take idle out until the canary is over"
// +kubebuilder:validation:XValidation:rule="!has(self.runtime) || !has(oldSelf.runtime) || self.runtime == oldSelf.runtime",fieldPath=".runtime",message="runtime is immutable: create another Inference"
type InferenceSpec struct {
	platformv1.InstanceSpec `json:",inline"`
	// modelRef names the Model, and the version or stage of it that is served.
	// +required
	ModelRef InferenceModelReference `json:"modelRef"`
	// canary has pods of its own serve another version, and gives them a part of the requests: a weight, or steps that are
	// taken one after the other while the canary is measured.
	// +optional
	Canary *InferenceCanary `json:"canary,omitempty"`
	// datasets are versions of Datasets of the same namespace that each pod mounts, read-only, at /datasets/<name>.
	// Another one replaces the pods, one after the other. A version that is named here stays in its Dataset.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Datasets []InferenceDataset `json:"datasets,omitempty"`
	// adapters are versions of Models that change what the served one says (LoRA), which has to be among what they
	// require. The server has the first as number 0. Another list restarts the servers, one after the other.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Adapters []InferenceAdapter `json:"adapters,omitempty"`
	// runtime is the plugin that serves the model, such as llama-cpp or onnxruntime. What it does not have is refused.
	// Default llama-cpp. Immutable.
	// +optional
	// +kubebuilder:default=llama-cpp
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Runtime string `json:"runtime,omitempty"`
	// replicas are the pods, 1 to 100. Default 1. With minReplicas and maxReplicas a HorizontalPodAutoscaler decides how
	// many there are: replicas has to be between them, and says how many stay when they are taken out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`
	// minReplicas that a HorizontalPodAutoscaler leaves. 0, the default, is no autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// maxReplicas that a HorizontalPodAutoscaler makes. 0, the default, is no autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
	// cpuUtilization that autoscaling keeps to, in percent of the CPU that a pod requests. Default 80, where
	// memoryUtilization and metrics are left out as well.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	CPUUtilization *int32 `json:"cpuUtilization,omitempty"`
	// memoryUtilization that autoscaling keeps to, in percent of the memory that a pod requests. With several of
	// utilizations and metrics the one that asks for most pods wins. A server has its model in memory whatever its load
	// is: what grows with the load are the caches of requests.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MemoryUtilization *int32 `json:"memoryUtilization,omitempty"`
	// metrics of the runtime that autoscaling keeps to, such as requests that a server computes. Which there are, the
	// plugin of the runtime says. They need monitoring, and an adapter that serves them in the API custom.metrics.k8s.io.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Metrics []platformv1.AutoscalingMetric `json:"metrics,omitempty"`
	// gpus that each pod gets. None when left out. Pods are replaced one at a time, and none is added first, so no spare
	// GPU is needed for an update. A runtime that does not compute on GPUs refuses them.
	// +optional
	GPUs *InferenceGPUs `json:"gpus,omitempty"`
	// healthCheck says how a server is asked whether it answers. A pod is ready only once its server has completed a
	// prompt by one token; the check is what follows.
	// +optional
	HealthCheck *InferenceHealthCheck `json:"healthCheck,omitempty"`
	// drainTimeout is how long requests in flight may take before a server is stopped, in whole seconds, up to 5m. Default
	// 30s. A server that ends gets no new requests, but for the first 10s, in which clients learn of it: less than 15s may
	// fail some. 0 stops it at once.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('5m') && duration(self).getMilliseconds() % 1000 == 0",message="drainTimeout must be whole seconds, at most 5m"
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// idle has a door take the requests of clients, and hold them while there are no servers: those go while no request
	// comes, and one that comes has them made again. Clients find the door in status.endpoint. Not together with canary.
	// +optional
	Idle *InferenceIdle `json:"idle,omitempty"`
	// apiKeySecretRef names the Secret, and the key in it, with the key that clients show as a bearer token. Whoever
	// reaches the Service is answered when left out. Another key restarts the servers, one after the other.
	// +optional
	APIKeySecretRef *platformv1.SecretKeyReference `json:"apiKeySecretRef,omitempty"`
	// ingress has an Ingress lead clients outside of the cluster here.
	// +optional
	Ingress *InferenceIngress `json:"ingress,omitempty"`
	// httpRoute has an HTTPRoute of a Gateway lead clients outside of the cluster here.
	// +optional
	HTTPRoute *InferenceHTTPRoute `json:"httpRoute,omitempty"`
	// pluginVersion is the version of the plugin that runs this instance. Immutable but through an
	// Operation of template UpgradeApp. Default 1.0.0.
	// +optional
	// +kubebuilder:default="1.0.0"
	PluginVersion platformv1.PluginVersion `json:"pluginVersion,omitempty"`
}

// InferenceModelReference names a version of a Model in the same namespace.
// +kubebuilder:validation:XValidation:rule="has(self.version) != has(self.stage)",message="set exactly one of version and stage"
type InferenceModelReference struct {
	// name of the Model.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// version of the Model.
	// +optional
	Version ModelVersionName `json:"version,omitempty"`
	// stage of the Model, whose version is served. When the stage gets another version, pods change to it one after the
	// other.
	// +optional
	// +kubebuilder:validation:Enum=Staging;Production;Archived
	Stage ModelStage `json:"stage,omitempty"`
}

// InferenceAdapter names a version of a Model in the same namespace that changes what another one says.
// +kubebuilder:validation:XValidation:rule="has(self.version) != has(self.stage)",message="set exactly one of version and stage"
type InferenceAdapter struct {
	// name of the Model.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// version of the Model.
	// +optional
	Version ModelVersionName `json:"version,omitempty"`
	// stage of the Model, whose version is used. When the stage gets another version, servers are restarted with it, one
	// after the other.
	// +optional
	// +kubebuilder:validation:Enum=Staging;Production;Archived
	Stage ModelStage `json:"stage,omitempty"`
	// scale of the change, in percent, for requests that do not name one of their own. With 0 the adapter is for those
	// that do. Default 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Scale *int32 `json:"scale,omitempty"`
}

// Ref is the reference without the scale.
func (a *InferenceAdapter) Ref() InferenceModelReference {
	return InferenceModelReference{Name: a.Name, Version: a.Version, Stage: a.Stage}
}

// InferenceDataset names a version of a Dataset in the same namespace.
type InferenceDataset struct {
	// name of the Dataset, and of the folder below /datasets that has its files.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// version of the Dataset.
	// +required
	Version DatasetVersionName `json:"version"`
}

// InferenceGPUs are those of one pod.
type InferenceGPUs struct {
	// resourceName by which the cluster counts them, such as nvidia.com/gpu, or the name of a slice of one. Amounts of
	// GPU memory are not counted by Kubernetes: ask for a slice that has it.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName"`
	// count of them. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count,omitempty"`
}

// InferenceHealthCheck says how a server is asked whether it answers.
type InferenceHealthCheck struct {
	// path that is asked for. Default is that of the runtime, which is /health of llama-cpp.
	// +optional
	// +kubebuilder:validation:Pattern=`^/[A-Za-z0-9._~/-]{0,250}$`
	Path string `json:"path,omitempty"`
	// interval between two requests, in whole seconds from 1s to 1h. Default 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h') && duration(self).getMilliseconds() % 1000 == 0",message="healthCheck.interval must be whole seconds from 1s to 1h"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// timeout of one request, in whole seconds from 1s to 30s. Default 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('30s') && duration(self).getMilliseconds() % 1000 == 0",message="healthCheck.timeout must be whole seconds from 1s to 30s"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// InferenceIngress says for which host an Ingress leads here.
type InferenceIngress struct {
	// host that requests are for.
	// +required
	Host HostName `json:"host"`
	// className of the Ingress; that of the cluster when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`
	// tlsSecretName names the Secret with the certificate for the host. No TLS when left out.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// InferenceHTTPRoute says for which host a Gateway leads here.
type InferenceHTTPRoute struct {
	// host that requests are for.
	// +required
	Host HostName `json:"host"`
	// gateway is the name of a Gateway, or namespace/name.
	// +required
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=317
	Gateway string `json:"gateway"`
}

// HostName is a DNS name.
// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,8}$`
// +kubebuilder:validation:MaxLength=253
type HostName string

// InferenceStatus is what is known of an Inference.
type InferenceStatus struct {
	platformv1.InstanceStatus `json:",inline"`
	// replicas are the pods that there are.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// model is the version that all pods serve; during an update, the one before.
	// +optional
	Model *InferenceModelStatus `json:"model,omitempty"`
	// adapters are those that all pods have; during a change, those before.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Adapters []InferenceAdapterStatus `json:"adapters,omitempty"`
	// datasets are those that all pods mount; during a change, those before.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Datasets []InferenceDatasetStatus `json:"datasets,omitempty"`
	// idle says whether there are servers; absent without spec.idle.
	// +optional
	Idle *InferenceIdleStatus `json:"idle,omitempty"`
	// canary is how that is; absent without one.
	// +optional
	Canary *InferenceCanaryStatus `json:"canary,omitempty"`
}

// InferenceModelStatus is a version of a model that is served.
type InferenceModelStatus struct {
	// name of the Model.
	// +required
	Name string `json:"name"`
	// version of the Model.
	// +required
	Version ModelVersionName `json:"version"`
	// digest of its file, such as sha256:9b1d…
	// +required
	Digest string `json:"digest"`
}

// InferenceAdapterStatus is a version of a Model that changes what the served one says.
type InferenceAdapterStatus struct {
	InferenceModelStatus `json:",inline"`
	// id is the number by which requests name the adapter.
	// +required
	ID int32 `json:"id"`
}

// InferenceDatasetStatus is a version of a Dataset that pods mount.
type InferenceDatasetStatus struct {
	// name of the Dataset.
	// +required
	Name string `json:"name"`
	// version of the Dataset.
	// +required
	Version DatasetVersionName `json:"version"`
	// digest of the version, as the Dataset has it: equal digests are equal files under equal paths.
	// +required
	Digest string `json:"digest"`
}

// Inference has servers answer requests with one version of a Model.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=inferences,singular=inference,categories=zeroinfra
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.modelRef.name`
// +kubebuilder:printcolumn:name="Serves",type=string,JSONPath=`.status.model.version`
// +kubebuilder:printcolumn:name="Canary",type=integer,JSONPath=`.status.canary.weight`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 28",message="the name of an Inference has at most 28 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="the name of an Inference cannot hold a dot: it becomes part of the name of a Service"
type Inference struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want.
	// +required
	Spec InferenceSpec `json:"spec"`
	// status is what there is; the operator writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status InferenceStatus `json:"status,omitzero"`
}

// InferenceList is a list of objects of the kind Inference.
// +kubebuilder:object:root=true
type InferenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Inference `json:"items"`
}
