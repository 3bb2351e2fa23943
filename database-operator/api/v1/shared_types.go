// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Auth says where the password of the instance's own user comes from.
type Auth struct {
	// passwordFrom names a Secret in the same namespace and the key that holds the password.
	// +required
	PasswordFrom platformv1.SecretKeyReference `json:"passwordFrom"`
}

// Failover says when a replica takes over from the primary.
type Failover struct {
	// mode: Auto has a replica take over by itself, Manual only when a person says so. Default Auto.
	// +optional
	Mode platformv1.FailoverMode `json:"mode,omitempty"`
	// after is how long the process of the primary may be down before a replica takes over, between 1s and 10m; it is started again in
	// place meanwhile. Default 1s for a Redis, 2s for a PostgreSQL.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="failover.after must be between 1s and 10m"
	After *metav1.Duration `json:"after,omitempty"`
}

// Member is a pod of an instance and what it does.
type Member struct {
	// name of the pod.
	Name string `json:"name"`
	// role: primary or replica.
	Role string `json:"role"`
}
