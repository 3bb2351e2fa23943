// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// ServiceExposure says how clients reach a component: the first Service that its plugin has for clients, which is that of the primary where
// there are roles, and its others by overrides. IP families are those of all its Services.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ipFamilies) || !has(self.ipFamilies) || self.ipFamilies[0] == oldSelf.ipFamilies[0]",message="the first of ipFamilies cannot change"
// +kubebuilder:validation:XValidation:rule="!has(self.ipFamilies) || self.ipFamilies.size() < 2 || has(self.ipFamilyPolicy) && self.ipFamilyPolicy != 'SingleStack'",message="two ipFamilies need the ipFamilyPolicy PreferDualStack or RequireDualStack"
type ServiceExposure struct {
	ServiceSettings `json:",inline"`
	// ipFamilies of all Services of the component, the first one first: IPv4, IPv6. Default: those of the cluster. The first one is immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || self[0] != self[1]",message="each of ipFamilies once"
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// ipFamilyPolicy of all Services of the component. RequireDualStack is refused by a cluster that has one family. Default SingleStack.
	// +optional
	// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
	IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`
	// overrides are the settings of the component's other Services for clients, such as that of the replicas, which are of type ClusterIP
	// and have no annotations unless they are named here.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Overrides []ServiceOverride `json:"overrides,omitempty"`
}

// ServiceSettings are those of one Service for clients.
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerSourceRanges) || has(self.type) && self.type == 'LoadBalancer'",message="loadBalancerSourceRanges need the type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || has(self.type) && self.type != 'ClusterIP'",message="externalTrafficPolicy needs the type NodePort or LoadBalancer"
type ServiceSettings struct {
	// type of the Service. Default ClusterIP.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	// +kubebuilder:default=ClusterIP
	Type corev1.ServiceType `json:"type,omitempty"`
	// annotations of the Service, for example for a cloud's load balancer or external-dns.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// loadBalancerSourceRanges are the networks whose clients a load balancer lets in, as CIDR such as 192.0.2.0/24. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Format=cidr
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
	// externalTrafficPolicy Local sends traffic from outside to pods on the node that it reaches alone, and keeps the client's address.
	// Default Cluster.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
}

// ServiceOverride is the settings of a further Service.
type ServiceOverride struct {
	// name of the Service behind that of the Application and a hyphen: replica for the Service <application>-replica.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name            string `json:"name"`
	ServiceSettings `json:",inline"`
}
