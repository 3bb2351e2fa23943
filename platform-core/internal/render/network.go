// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// networkPolicy lets in: pods of the same Application, to all ports; the operator, to the agents'; whom the user
// names, or anyone, to the ports that are meant for clients, and those who read metrics to theirs; and nothing else.
// The kubelet's probes are always let in by the network itself.
func (c *context) networkPolicy() *networkingv1.NetworkPolicy {
	wanted := c.spec.NetworkPolicy
	if wanted == nil {
		return nil
	}
	agents := []networkingv1.NetworkPolicyPort{policyPort(plan.ProcessPort)}
	if c.needsOps() {
		agents = append(agents, policyPort(plan.OpsPort))
	}
	rules := []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{platformv1.ApplicationLabel: c.owner.Application},
		}}}},
		{
			From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: c.settings.OperatorNamespace},
			}}},
			Ports: agents,
		},
	}
	var clients []networkingv1.NetworkPolicyPort
	for _, port := range c.declared.Ports {
		if port.Access == "" || port.Access == schema.PortClient {
			clients = append(clients, policyPort(port.Port))
		}
	}
	// A rule without ports would be about all of them.
	if len(clients) > 0 {
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{From: wanted.From, Ports: clients})
	}
	rules = append(rules, c.monitorsMayReach()...)
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name: platformv1.ComponentNameFor(c.owner.Application, c.spec.Component), Namespace: c.owner.Namespace,
			Labels: c.labels(),
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: c.selector("")},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
}

func policyPort(port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}
}
