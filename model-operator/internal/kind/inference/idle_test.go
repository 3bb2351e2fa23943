// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// behindDoor is an Inference that is scaled between 2 and 4, with a phase on record.
func behindDoor(phase aiv1.IdlePhase) *aiv1.Inference {
	i := withCanary(2, "1.0", 0)
	i.Spec.Canary, i.Spec.Idle = nil, &aiv1.InferenceIdle{}
	i.Spec.MinReplicas, i.Spec.MaxReplicas = 2, 4
	i.Annotations = map[string]string{
		aiv1.IdleProgressAnnotation: `{"phase":"` + string(phase) + `","since":"2026-02-03T05:00:00Z"}`}
	return i
}

// There are no servers while nobody asks, and the first ones come without an autoscaler.
func TestServersFollowTheRecord(t *testing.T) {
	unread := func(i *aiv1.Inference) { i.Annotations[aiv1.IdleProgressAnnotation] = "{" }
	for name, c := range map[string]struct {
		change func(*aiv1.Inference)
		phase  aiv1.IdlePhase
		want   int32
		scaled bool
	}{
		"active":                  {nil, "", -1, true},
		"idle":                    {nil, aiv1.IdleNoServers, 0, false},
		"starting":                {nil, aiv1.IdleStarting, 2, false},
		"what cannot be read":     {unread, "", -1, true},
		"idle, and without idle":  {func(i *aiv1.Inference) { i.Spec.Idle = nil }, aiv1.IdleNoServers, 2, false},
		"starting, by a number":   {func(i *aiv1.Inference) { i.Spec.MaxReplicas = 0 }, aiv1.IdleStarting, 2, false},
		"idle, scaled by nothing": {func(i *aiv1.Inference) { i.Spec.MaxReplicas = 0 }, aiv1.IdleNoServers, 0, false},
	} {
		i := behindDoor(c.phase)
		if c.change != nil {
			c.change(i)
		}
		out, err := compiled(i, modelNamed("chat"))
		if err != nil {
			t.Fatal(err)
		}
		main, got := &out.Application.Spec.Components[0], int32(-1)
		if main.Replicas != nil {
			got = *main.Replicas
		}
		if got != c.want || (main.Autoscaling != nil) != c.scaled {
			t.Errorf("%s: there are %d servers, and the autoscaler is %+v", name, got, main.Autoscaling)
		}
		topology, parts := "server-door", 2
		if i.Spec.Idle == nil {
			topology, parts = "server", 1
		}
		if spec := &out.Application.Spec; spec.Topology != topology || len(spec.Components) != parts {
			t.Errorf("%s: the topology is %s with %d components", name, spec.Topology, len(spec.Components))
		}
	}
}

// Doors run where the servers may, and need no GPU.
func TestDoorsFollowTheScheduling(t *testing.T) {
	i := behindDoor("")
	i.Spec.GPUs = &aiv1.InferenceGPUs{ResourceName: "nvidia.com/gpu"}
	i.Spec.Scheduling = &platformv1.Scheduling{NodeSelector: map[string]string{"pool": "chat"},
		Tolerations: []corev1.Toleration{{Key: "chat", Operator: corev1.TolerationOpExists}}, PriorityClassName: "high",
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack",
			WhenUnsatisfiable: corev1.DoNotSchedule}}}
	out, err := compiled(i, modelNamed("chat"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Application.Spec.Components {
		if !reflect.DeepEqual(c.Scheduling, i.Spec.Scheduling) {
			t.Errorf("component %s has the scheduling %+v", c.Name, c.Scheduling)
		}
		if gpus := c.Resources.Limits["nvidia.com/gpu"]; gpus.IsZero() != (c.Name == doorComponent) {
			t.Errorf("component %s has the resources %+v", c.Name, c.Resources)
		}
	}
}

// A Gateway leads to the door, and there is no Service of the servers for it.
func TestRouteLeadsToTheDoor(t *testing.T) {
	var out typed.Output
	route(routedTo(behindDoor("")), &out)
	if len(out.Objects) != 1 {
		t.Fatalf("there are %d objects", len(out.Objects))
	}
	rules, _, _ := unstructured.NestedSlice(out.Objects[0].(*unstructured.Unstructured).Object, "spec", "rules")
	if got := weightIn(rules[0], "inference-chat-door"); got != fullWeight {
		t.Errorf("the door has the weight %d: %v", got, rules)
	}
}

// The status counts the servers alone, and says whether there are any.
func TestReportBehindADoor(t *testing.T) {
	app := &platformv1.Application{}
	app.Status.Ready = "2/2"
	app.Status.Components = []platformv1.ComponentState{
		{Name: "door", Replicas: 2, ReadyReplicas: 2, Pods: make([]platformv1.PodState, 2)}, {Name: "server"}}
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "server"}}
	for _, phase := range []aiv1.IdlePhase{aiv1.IdleNoServers, aiv1.IdleStarting, aiv1.IdleActive} {
		i := behindDoor(phase)
		Kind{}.Report(i, app)
		s := &i.Status
		if s.Ready != "0/0" || s.Replicas != 0 || s.Idle == nil || s.Idle.Phase != phase ||
			(s.Idle.Since == nil) != (phase == aiv1.IdleActive) {
			t.Errorf("%s: ready are %s of %d pods, and idle is %+v", phase, s.Ready, s.Replicas, s.Idle)
		}
	}
	i := behindDoor(aiv1.IdleNoServers)
	i.Spec.Idle = nil
	Kind{}.Report(i, app)
	if i.Status.Idle != nil || i.Status.Ready != "2/2" {
		t.Errorf("without a door ready are %s, and idle is %+v", i.Status.Ready, i.Status.Idle)
	}
}
