// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// ServiceExposure says how clients reach a component: the first Service that its plugin has for clients, which is that
// of the primary where there are roles, and its others by overrides. IP families are those of all its Services.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ipFamilies) || !has(self.ipFamilies) || self.ipFamilies[0] == oldSelf.ipFamilies[0]",message="the first of ipFamilies cannot change"
// +kubebuilder:validation:XValidation:rule="!has(self.ipFamilies) || self.ipFamilies.size() < 2 || has(self.ipFamilyPolicy) && self.ipFamilyPolicy != 'SingleStack'",message="two ipFamilies need the ipFamilyPolicy PreferDualStack or RequireDualStack"
type ServiceExposure struct {
	ServiceSettings `json:",inline"`
	// ipFamilies of all Services of the component, the first one first: IPv4, IPv6. Default: those of the cluster. The
	// first one is immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || self[0] != self[1]",message="each of ipFamilies once"
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// ipFamilyPolicy of all Services of the component. RequireDualStack is refused by a cluster that has one family.
	// Default SingleStack.
	// +optional
	// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
	IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`
	// overrides are the settings of the component's other Services for clients, such as that of the replicas, which are of
	// type ClusterIP and have no annotations unless they are named here.
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
	// loadBalancerSourceRanges are the networks whose clients a load balancer lets in, as CIDR such as 192.0.2.0/24.
	// Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Format=cidr
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
	// externalTrafficPolicy Local sends traffic from outside to pods on the node that it reaches alone, and keeps the
	// client's address. Default Cluster.
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

// ExternalAccess gives each pod of a component a Service of its own, called as the pod, by which clients outside of the
// cluster reach just that pod. Where the address of a pod comes from follows from the type of its Service: of a
// NodePort it is the IP address of the pod's node and the port there, of a LoadBalancer what its controller gives the
// Service, and of a ClusterIP the DNS name of the Service. A pod is made once its address is known, and another address
// restarts or reloads the process of that pod.
// +kubebuilder:validation:XValidation:rule="!has(self.nodePorts) || has(self.type) && self.type != 'ClusterIP'",message="nodePorts need the type NodePort or LoadBalancer"
type ExternalAccess struct {
	// Settings of each of the Services. In values of annotations, {pod}, {set} and {ordinal} stand for the name of the
	// pod, that of its set and its number there.
	ServiceSettings `json:",inline"`
	// host that clients are told in place of the address of the Service: a DNS name or an IP address, in which {pod},
	// {set} and {ordinal} stand for those of the pod, such as broker-{ordinal}.example.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9.:{}-]+$`
	Host string `json:"host,omitempty"`
	// nodePorts of pods that are to have a certain one; the cluster chooses those of others.
	// +optional
	// +listType=map
	// +listMapKey=set
	// +listMapKey=ordinal
	// +kubebuilder:validation:MaxItems=1000
	NodePorts []PodNodePort `json:"nodePorts,omitempty"`
}

// PodNodePort is the port on every node that leads to one pod.
type PodNodePort struct {
	// set that the pod is part of. Default main.
	// +optional
	// +kubebuilder:default=main
	// +kubebuilder:validation:MaxLength=6
	Set string `json:"set,omitempty"`
	// ordinal of the pod in its set.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	Ordinal int32 `json:"ordinal"`
	// nodePort, one of those that the cluster has for Services.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort int32 `json:"nodePort"`
}

// NodePortOf returns the port that a pod is to have; 0 for any.
func (e *ExternalAccess) NodePortOf(set string, ordinal int32) int32 {
	for _, wanted := range e.NodePorts {
		if wanted.Set == set && wanted.Ordinal == ordinal {
			return wanted.NodePort
		}
	}
	return 0
}

// OnNode says whether clients reach the pods by the IP addresses of their nodes.
func (e *ExternalAccess) OnNode() bool {
	return e != nil && e.Type == corev1.ServiceTypeNodePort && e.Host == ""
}
