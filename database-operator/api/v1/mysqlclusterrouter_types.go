// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// MySQLRouter are MySQL Routers in pods of their own, in the same places as the members. Clients log in there as they
// do at the members. Port 6450 sends each statement to where it belongs, 6446 leads to the primary, and 6447 to the
// replicas.
type MySQLRouter struct {
	// replicas are the pods. Default 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas int32 `json:"replicas,omitempty"`
	// parameters of MySQL Router by its own names, such as max_total_connections and max_idle_server_connections. Each is
	// checked. Other ones restart the processes in place, one after the other.
	// +optional
	Parameters platformv1.Parameters `json:"parameters,omitempty"`
	// resources of the Router container of each pod. The plugin's defaults when left out.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="router.resources.claims is not supported"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// service says how clients reach the routers. Default: of type ClusterIP.
	// +optional
	Service *platformv1.ServiceExposure `json:"service,omitempty"`
}
