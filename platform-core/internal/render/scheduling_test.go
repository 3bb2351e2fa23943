// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

func scheduled(t testing.TB, b *plugin.Bundle, s *platformv1.Scheduling) corev1.PodSpec {
	t.Helper()
	ws, _ := render(t, b, settings, application(component(func(c *platformv1.ApplicationComponent) { c.Scheduling = s })))
	return pod(t, ws, 0).Spec
}

// What the user says goes over what the plugin's template says; what a user writes is no placeholder.
func TestScheduling(t *testing.T) {
	b := redis(t, "spec:\n", "spec:\n  nodeSelector: {disk: slow, kind: database}\n  priorityClassName: low\n  "+
		"tolerations:\n    - {key: db, operator: Exists}\n")
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: []string{"${pod.name}", "$${x}"}}}}},
		}}}
	spec := scheduled(t, b, &platformv1.Scheduling{
		NodeSelector: map[string]string{"disk": "fast"}, PriorityClassName: "high", Affinity: affinity,
		Tolerations: []corev1.Toleration{{Key: "db", Operator: corev1.TolerationOpExists},
			{Key: "spot", Value: "yes", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(60))}},
	})
	if want := map[string]string{"disk": "fast", "kind": "database"}; !reflect.DeepEqual(spec.NodeSelector, want) {
		t.Errorf("nodeSelector is %v", spec.NodeSelector)
	}
	if spec.PriorityClassName != "high" || len(spec.Tolerations) != 2 || spec.Tolerations[1].Key != "spot" {
		t.Errorf("priority %q, tolerations %+v", spec.PriorityClassName, spec.Tolerations)
	}
	if !reflect.DeepEqual(spec.Affinity.NodeAffinity, affinity.NodeAffinity) {
		t.Errorf("affinity is %+v", spec.Affinity.NodeAffinity)
	}
	spec = scheduled(t, b, nil)
	if spec.NodeSelector["disk"] != "slow" || spec.PriorityClassName != "low" || len(spec.Tolerations) != 1 {
		t.Errorf("the template's own became %+v", spec)
	}
}

func TestSchedulingIsRefused(t *testing.T) {
	spread := func(c corev1.TopologySpreadConstraint) *platformv1.Scheduling {
		return &platformv1.Scheduling{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{c}}
	}
	tolerate := func(t corev1.Toleration) *platformv1.Scheduling {
		return &platformv1.Scheduling{Tolerations: []corev1.Toleration{t}}
	}
	for says, s := range map[string]*platformv1.Scheduling{
		"nodeSelector has a=!, which is no label": {NodeSelector: map[string]string{"a": "!"}},
		"priorityClassName is \"A B\"":            {PriorityClassName: "A B"},
		"has operator Exists and a value": tolerate(
			corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Value: "b"}),
		"one has no key":             tolerate(corev1.Toleration{Value: "b"}),
		"it must be Exists or Equal": tolerate(corev1.Toleration{Key: "a", Operator: "In"}),
		"it must be NoSchedule":      tolerate(corev1.Toleration{Key: "a", Effect: "Never"}),
		"they need effect NoExecute": tolerate(corev1.Toleration{Key: "a", TolerationSeconds: new(int64(1))}),
		"maxSkew of \"zone\" is 0": spread(
			corev1.TopologySpreadConstraint{TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}),
		"topologyKey is \"\"": spread(
			corev1.TopologySpreadConstraint{MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}),
		"whenUnsatisfiable of \"zone\" is \"Maybe\"": spread(
			corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "Maybe"}),
		"labelSelector of \"zone\"": spread(
			corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}),
	} {
		_, refusal := Components(redis(t), application(
			component(func(c *platformv1.ApplicationComponent) { c.Scheduling = s })))
		if refusal == nil || refusal.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(refusal.Message, says) {
			t.Errorf("got %v; want %q", refusal, says)
		}
	}
}

func TestNetworkPolicy(t *testing.T) {
	b := redis(t, "    ports:\n", "    ports:\n      - name: bus\n        port: 16379\n        access: Peers\n")
	closed := application(func(a *platformv1.Application) { a.Spec.NetworkPolicy = &platformv1.NetworkPolicy{} })
	if policy := output(t, b, application(nil)).NetworkPolicy; policy != nil {
		t.Errorf("nobody asked for %+v", policy)
	}
	policy := output(t, b, closed).NetworkPolicy
	if len(policy.Spec.PolicyTypes) != 1 || policy.Spec.PolicyTypes[0] != networkingv1.PolicyTypeIngress ||
		len(policy.Spec.Ingress) != 3 {
		t.Fatalf("policy is %+v", policy.Spec)
	}
	clients := policy.Spec.Ingress[2]
	if len(clients.From) != 0 || len(clients.Ports) != 1 || clients.Ports[0].Port.IntValue() != 6379 {
		t.Errorf("clients get %+v", clients)
	}
	// Without a port for clients there is no rule for them: one without ports would open all of them.
	inner := redis(t, "      - name: redis\n        port: 6379\n",
		"      - name: redis\n        port: 6379\n        access: Peers\n",
		"        exposure: Client\n", "        exposure: Internal\n", "binding:\n  type: redis\n  component: redis\n  "+
			"port: redis\n  credential: default\n  uriScheme: redis\n  uriSchemeTLS: rediss\n", "")
	if rules := output(t, inner, closed).NetworkPolicy.Spec.Ingress; len(rules) != 2 {
		t.Errorf("rules are %+v", rules)
	}
}
