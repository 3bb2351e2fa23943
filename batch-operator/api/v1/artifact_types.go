// SPDX-License-Identifier: Apache-2.0

package v1

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// WorkflowArtifacts says where the files are kept that tasks hand on.
type WorkflowArtifacts struct {
	// repositoryRef names a BackupRepository in the same namespace that has a bucket and no encryption. They are kept
	// below its prefix in _artifacts/NAMESPACE/UID of the first Operation of the run, and go with the run.
	// +required
	RepositoryRef platformv1.SecretReference `json:"repositoryRef"`
	// maxSize of an artifact, at most 64Gi. Default 1Gi.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('64Gi')) <= 0",message="maxSize must be at most 64Gi"
	MaxSize platformv1.ByteSize `json:"maxSize,omitempty"`
}

// Artifact is a file that the container of a task writes. It is kept once the container has ended with exit code 0.
type Artifact struct {
	// name by which other tasks take it, as TASK.NAME.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=24
	Name string `json:"name"`
	// path of the file in the container. Its folder is a volume of its own.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`
}

// ArtifactInput is an artifact of an earlier task, which is there before the container starts.
type ArtifactInput struct {
	// from is the artifact, as TASK.NAME. This task has to depend on that one, directly or not.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?[.][a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=49
	From string `json:"from"`
	// path of the file in the container. Its folder is a volume of its own.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`
}
