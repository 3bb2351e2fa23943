// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperationRetry says how often a step that failed is tried again, and after which times.
// +kubebuilder:validation:XValidation:rule="!has(self.maxBackoff) || !has(self.backoff) || duration(self.maxBackoff) >= duration(self.backoff)",message="maxBackoff must not be less than backoff"
// +kubebuilder:validation:XValidation:rule="!has(self.exitCodes) || !has(self.exceptExitCodes)",message="set one of exitCodes and exceptExitCodes"
type OperationRetry struct {
	// limit is how many times a step is tried again, after the first.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	Limit int32 `json:"limit"`
	// backoff before the first of them; it grows by factor with each, up to maxBackoff. Default 5s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="backoff must be greater than 0"
	Backoff *metav1.Duration `json:"backoff,omitempty"`
	// factor by which the backoff grows with each further one; with 1 it stays the same. Default 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Factor int32 `json:"factor,omitempty"`
	// maxBackoff is the most that the backoff grows to. Default 5m, or backoff where that is longer.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="maxBackoff must be greater than 0"
	MaxBackoff *metav1.Duration `json:"maxBackoff,omitempty"`
	// jitterPercent shortens each backoff by a part of up to so many percent, so that what failed together is not tried
	// again together. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	JitterPercent int32 `json:"jitterPercent,omitempty"`
	// exitCodes are those after which a container is tried again; after another one it is not. What fails without an exit
	// code, since its pod is lost for example, is tried again. All but 0 when left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=255
	ExitCodes []int32 `json:"exitCodes,omitempty"`
	// exceptExitCodes are those after which a container is not tried again; after another one it is. Not together with
	// exitCodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=255
	ExceptExitCodes []int32 `json:"exceptExitCodes,omitempty"`
}

// ExitCodesField names the field that says after which exit codes a container is tried again; empty for none.
func (r *OperationRetry) ExitCodesField() string {
	switch {
	case len(r.ExitCodes) > 0:
		return "exitCodes"
	case len(r.ExceptExitCodes) > 0:
		return "exceptExitCodes"
	}
	return ""
}
