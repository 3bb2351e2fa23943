// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// The last lines of a container that fails are in its pod's status, unless a plugin has it write a message of its own.
func TestPodsTellTheLastLines(t *testing.T) {
	const file, log = corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError
	spec := corev1.PodSpec{InitContainers: []corev1.Container{{Name: "a"}},
		Containers: []corev1.Container{{Name: "b"}, {Name: "c", TerminationMessagePolicy: file}}}
	tellLastLines(&spec)
	for i, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if want := []corev1.TerminationMessagePolicy{log, log, file}[i]; c.TerminationMessagePolicy != want {
			t.Errorf("container %s has policy %q", c.Name, c.TerminationMessagePolicy)
		}
	}
}

func TestRoleOfTheAgentsNamesEachPod(t *testing.T) {
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "redis-a-redis-main", Namespace: "ns"}}
	set.Spec.Replicas = 0
	for _, obj := range RightsOf(set, verdictOn(nil, rollout.Facts{})) {
		if role, ok := obj.(interface{ GetName() string }); ok && role.GetName() == "" {
			t.Errorf("%T has no name", obj)
		}
	}
	rules := agentRules(set, verdictOn(nil, rollout.Facts{}))
	for _, rule := range rules {
		if len(rule.ResourceNames) == 0 {
			t.Errorf("rule %v grants every object", rule)
		}
	}
	// A pod that still is there tells how it is until it goes.
	set.Spec.Replicas, set.Spec.ExcludedOrdinals = 2, []int32{1}
	f := verdictOn(nil, wantedOf(set))
	f.Rollout.Pods = []rollout.Pod{{Ordinal: 0}, {Ordinal: 1}}
	rules = agentRules(set, f)
	got := strings.Join(rules[1].ResourceNames, " ")
	if got != "redis-a-redis-main-0 redis-a-redis-main-1 redis-a-redis-main-2" {
		t.Errorf("pods that can be patched: %s", got)
	}
}
