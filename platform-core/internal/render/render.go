// SPDX-License-Identifier: Apache-2.0

// Package render turns a plugin and a spec into objects. It is pure: it reads
// nothing but its arguments, and the same arguments always give the same bytes.
//
// Components checks an Application and fills in every default; Component renders
// the sets and Services of one component from that; Pod, Plan and Revision need the
// rendered WorkloadSet only, so that pods are kept running without their plugin.
package render

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Refusal says why a spec cannot be rendered. Nothing of a running service is touched for it.
type Refusal struct {
	// Reason is one of the constants platformv1.Reason….
	Reason string
	// Message says what is wrong and what to do.
	Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// DefaultClusterDomain is the domain of the cluster's DNS when the settings name none.
const DefaultClusterDomain = "cluster.local"

// Settings of the operator that rendering depends on.
type Settings struct {
	// AgentImage holds the agent's binary. It is outside the pod's revision.
	AgentImage string
	// ImageRegistry is put in front of the plugin's images when not empty, for example
	// registry.example.com/mirror. A registry that an image names itself is replaced.
	ImageRegistry string
	// ClusterDomain of the cluster's DNS. Default cluster.local.
	ClusterDomain string
	// OperatorNamespace is where the agents are called from.
	OperatorNamespace string
	// Pods is what all pods get; nil for nothing.
	Pods *PodSettings
}

// Meta is what a rendered object needs to know of its Application.
type Meta struct {
	// Application is its name.
	Application string
	// Namespace that it is in.
	Namespace string
	// UID of the Application.
	UID types.UID
	// Domain of the operator.
	Domain string
}

// WorkloadSetOutput is one set to apply.
type WorkloadSetOutput struct {
	// Name of the WorkloadSet.
	Name string
	// Spec of the WorkloadSet.
	Spec platformv1.WorkloadSetSpec
	// Unaddressed are the Services of those of its pods for which clients outside of the cluster have no address yet.
	Unaddressed []string
}

// ComponentOutput is all that a Component consists of.
type ComponentOutput struct {
	// WorkloadSets to apply.
	WorkloadSets []WorkloadSetOutput
	// Services to apply, the headless one first.
	Services []*corev1.Service
	// External are the Services in front of one pod each; nil without external access.
	External *External
	// Budgets to apply: one for each set of at least two pods.
	Budgets []*policyv1.PodDisruptionBudget
	// Autoscalers to apply: one for each set of a component with autoscaling.
	Autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	// Ingresses to apply.
	Ingresses []*networkingv1.Ingress
	// HTTPRoutes to apply, of the Gateway API.
	HTTPRoutes []*unstructured.Unstructured
	// Role and RoleBinding to apply; nil for pods that read nothing through the API of Kubernetes.
	Role        *rbacv1.Role
	RoleBinding *rbacv1.RoleBinding
	// NetworkPolicy to apply; nil when none is wanted.
	NetworkPolicy *networkingv1.NetworkPolicy
	// Certificate to apply, of cert-manager; nil without TLS.
	Certificate *unstructured.Unstructured
	// PodMonitor to apply, of the Prometheus Operator; nil when metrics are not wanted.
	PodMonitor *unstructured.Unstructured
	// Endpoints that clients use: one for each Service with exposure Client.
	Endpoints []platformv1.Endpoint
}
