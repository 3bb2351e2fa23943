// SPDX-License-Identifier: Apache-2.0

package v1

// SetElection names the attributes of the probe by which pods report the primary that they elected.
type SetElection struct {
	// member is the attribute with the identity of the pod itself, as the middleware has it.
	// +required
	// +kubebuilder:validation:MinLength=1
	Member string `json:"member"`
	// primary is the attribute with the identity of the member that the pod takes for the primary; its value is empty for
	// none.
	// +required
	// +kubebuilder:validation:MinLength=1
	Primary string `json:"primary"`
	// epoch is the attribute with the middleware's own number of the election: whole numbers, separated by : or . and
	// compared in order.
	// +required
	// +kubebuilder:validation:MinLength=1
	Epoch string `json:"epoch"`
}

// ElectionRecord is an election of the middleware.
type ElectionRecord struct {
	// epoch of the election, as the pods report it.
	// +required
	Epoch string `json:"epoch"`
	// primary is the pod that was elected.
	// +required
	Primary string `json:"primary"`
}
