// SPDX-License-Identifier: Apache-2.0

package component

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func setOf(name, version string, ready int32) *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a-db-" + name, Generation: 1},
		Spec:       platformv1.WorkloadSetSpec{Set: name, Replicas: 2},
		Status: platformv1.WorkloadSetStatus{
			ReadyReplicas: ready, UpdatedReplicas: 2, Version: version, Phase: platformv1.PhaseUpdating,
			Pods: []platformv1.PodState{{Name: "a-db-" + name + "-0", Role: "primary"}},
		},
	}
}

func factsOf(sets ...*platformv1.WorkloadSet) *facts {
	f := &facts{sets: map[string]*platformv1.WorkloadSet{}, services: map[string]*corev1.Service{}}
	for _, set := range sets {
		f.sets[set.Name] = set
	}
	return f
}

func TestReport(t *testing.T) {
	component := &platformv1.Component{
		Spec: platformv1.ComponentSpec{Replicas: 2,
			Sets: []platformv1.ComponentSet{{Name: "x"}, {Name: "y", Replicas: new(int32(5))}}}}
	f := factsOf(setOf("y", "1.2", 2), setOf("x", "1.2", 1))
	f.services["a"] = &corev1.Service{
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Port: 1, NodePort: 30001}, {Port: 2, NodePort: 30002}}},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}}},
	}
	rendered := &render.ComponentOutput{Endpoints: []platformv1.Endpoint{{Name: "a", Port: 2}, {Name: "b", Port: 1}}}
	report(component, f, rendered)
	s := component.Status
	if s.Replicas != 7 || s.ReadyReplicas != 3 || s.Version != "1.2" || len(s.Sets) != 2 || s.Sets[1].ReadyReplicas != 2 ||
		s.Pods[0].Set != "x" || s.Pods[1].Set != "y" {
		t.Errorf("status is %+v", s)
	}
	want := []platformv1.Endpoint{{Name: "a", Port: 2, NodePort: 30002, ExternalHost: "lb.example.com"},
		{Name: "b", Port: 1}}
	if !reflect.DeepEqual(s.Endpoints, want) {
		t.Errorf("endpoints are %+v", s.Endpoints)
	}
	if rendered.Endpoints[0].NodePort != 0 {
		t.Error("what was rendered was changed")
	}
	// Without a rendering the endpoints stay, and follow their Services.
	f.services["a"].Spec.Type = corev1.ServiceTypeClusterIP
	f.sets["a-db-x"].Status.Version = "1.3"
	report(component, f, nil)
	if s = component.Status; len(s.Endpoints) != 2 || s.Endpoints[0].NodePort != 0 || s.Version != "" {
		t.Errorf("status is %+v", s)
	}
}

// Who writes, since when and why is told by the sets; what may still be lost counts.
func TestReportOfWriters(t *testing.T) {
	set := setOf("x", "1.2", 2)
	changes := []platformv1.PrimaryChange{{Term: 2, From: "a-db-x-1", To: "a-db-x-0", Cause: platformv1.PrimaryOrdered}}
	set.Status.Primary = &platformv1.PrimaryRecord{Term: 2, List: platformv1.MemberList{SynchronousReplicas: 2},
		Previous: &platformv1.MemberList{SynchronousReplicas: 1}, Changes: changes}
	component := &platformv1.Component{}
	report(component, factsOf(set), nil)
	if s := component.Status.Sets[0]; s.Term != 2 || s.SynchronousReplicas != 1 || !reflect.DeepEqual(s.Changes, changes) {
		t.Errorf("the set is %+v", s)
	}
}

func TestSettle(t *testing.T) {
	running, stopped := &platformv1.Component{}, &platformv1.Component{Spec: platformv1.ComponentSpec{Running: new(false)}}
	rendered := &render.ComponentOutput{WorkloadSets: []render.WorkloadSetOutput{{Name: "a-db-x"}}}
	set := setOf("x", "", 0)
	conditions.Report(set, outcome.Done(), "fine")
	if o := settle(running, factsOf(set), rendered); o.Kind() != outcome.KindDone || o.Reason() != "" {
		t.Errorf("ready set: %v %s", o.Kind(), o.Reason())
	}
	if o := settle(stopped, factsOf(set), rendered); o.Kind() != outcome.KindDone ||
		o.Reason() != platformv1.ReasonStopped {
		t.Errorf("stopped set: %v %s", o.Kind(), o.Reason())
	}
	if o := settle(running, factsOf(), rendered); o.Kind() != outcome.KindWaiting {
		t.Errorf("absent set: %v", o.Kind())
	}
	f := factsOf(set)
	f.written = []string{"a-db-x"}
	if o := settle(running, f, rendered); o.Kind() != outcome.KindWaiting || o.After() == 0 {
		t.Errorf("set that was just written: %v %v", o.Kind(), o.After())
	}
	conditions.Report(set, outcome.Stalled("VolumeShrinkRefused", "no"), "")
	if o := settle(stopped, factsOf(set), rendered); o.Kind() != outcome.KindStalled {
		t.Errorf("stalled set: %v", o.Kind())
	}
}

// A component has been updated once it is ready with its spec, and stays so whatever becomes of its pods until the spec
// changes again.
func TestUpdatedGeneration(t *testing.T) {
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	working := outcome.Waiting(platformv1.ReasonPodsNotReady, "1 of 3 ready")
	for i, step := range []struct {
		generation int64
		outcome    outcome.Outcome
		updates    bool
	}{
		{1, working, true}, {1, outcome.Done(), false}, {1, working, false}, {2, working, true},
		{2, outcome.Deferred(platformv1.ReasonWaitingForMaintenance, "later"), true},
		{2, outcome.Stalled(platformv1.ReasonInvalidSpec, "mend it"), true}, {3, outcome.Done(), false},
		{4, outcome.DoneAs(platformv1.ReasonStopped, "it is stopped"), false},
	} {
		component.Generation = step.generation
		conditions.Report(component, step.outcome, "")
		finish(component, step.outcome)
		if component.Updates() != step.updates {
			t.Errorf("step %d: it is being updated: %t", i, component.Updates())
		}
	}
}
