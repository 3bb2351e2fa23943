// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// outdated is a pod that is to be replaced.
func outdated(name string, ordinal int32, ready rollout.Readiness) rollout.Pod {
	return rollout.Pod{Name: name, Ordinal: ordinal, Life: rollout.Alive, Revision: "1", Ready: ready,
		Report: agentreport.Report{Health: agentreport.Healthy}}
}

// broker is a Component that is updated before that of the set.
func broker(generation, updated int64) *platformv1.Component {
	return &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a-broker", Generation: generation},
		Status: platformv1.ComponentStatus{UpdatedGeneration: updated}}
}

func TestPodsWaitForComponentsThatAreUpdatedFirst(t *testing.T) {
	going := broker(2, 1)
	going.Finalizers, going.DeletionTimestamp = []string{"a/b"}, &metav1.Time{Time: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		first []runtime.Object
		after []string
		waits bool
	}{
		"no order":                    {[]runtime.Object{broker(2, 1)}, nil, false},
		"it is to be updated":         {[]runtime.Object{broker(2, 1)}, []string{"broker"}, true},
		"one of several is":           {[]runtime.Object{broker(2, 1)}, []string{"other", "broker"}, true},
		"it was never ready":          {[]runtime.Object{broker(1, 0)}, []string{"broker"}, true},
		"it has been updated":         {[]runtime.Object{broker(2, 2)}, []string{"broker"}, false},
		"it is not there":             {nil, []string{"broker"}, false},
		"it is on its way out":        {[]runtime.Object{going}, []string{"broker"}, false},
		"the others are, and not one": {[]runtime.Object{broker(2, 2)}, []string{"broker", "other"}, false},
	} {
		scheme := runtime.NewScheme()
		if err := platformv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		reader := fake.NewClientBuilder().WithScheme(scheme).WithRuntimeObjects(test.first...).Build()
		r := &Reconciler{Deps: Deps{Client: reader, Live: reader, Locks: &disruption.Locks{}}}
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a-controller-main"},
			Spec: platformv1.WorkloadSetSpec{Application: "a", Component: "controller", UpdateAfter: test.after}}
		f := verdictOn(map[string]*corev1.Pod{}, rollout.Facts{Name: set.Name, Replicas: 1, Revision: "2",
			Pods: []rollout.Pod{outdated("a-controller-main-0", 0, rollout.Ready)}})
		steps, release, err := r.Acquire(t.Context(), set, f, rollout.Plan(f.Rollout))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		release()
		if waits := len(steps) == 0; waits != test.waits {
			t.Errorf("%s: the steps are %v", name, steps)
		}
		if !test.waits {
			continue
		}
		o := AwaitDisruption(f, f.Rollout.Held())
		if o.Reason() != platformv1.ReasonUpdateOrder || !strings.HasPrefix(o.Message(),
			"waits for component broker, which is updated first, to be ready with its change: pod a-controller-main-0 is to be "+
				"replaced") {
			t.Errorf("%s: it says %s %q", name, o.Reason(), o.Message())
		}
		if f.Wake != 0 {
			t.Errorf("%s: it looks again every %s, and a watch tells", name, f.Wake)
		}
	}
}

// A broken pod may need its change for the component that is updated first to become ready. Scaling disrupts nobody.
func TestWhatWaitsForNoOtherComponent(t *testing.T) {
	set := &platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{UpdateAfter: []string{"broker"}}}
	ready, ill := outdated("a-0", 0, rollout.Ready), outdated("a-1", 1, rollout.NotReady)
	other := outdated("a-1", 1, rollout.Ready)
	for want, planned := range map[string]rollout.Facts{
		"DeletePod a-1: its template changed":    {Replicas: 2, Pods: []rollout.Pod{ready, ill}},
		"CreatePod a-1: the pod is missing":      {Replicas: 2, Pods: []rollout.Pod{ready}},
		"DeletePod a-1: only 1 pods are wanted":  {Replicas: 1, Pods: []rollout.Pod{ready, other}},
		"DeletePod a-1: the set is to stop":      {Mode: rollout.Stopped, Pods: []rollout.Pod{other}},
		"DeletePod a-0: its ordinal is excluded": {Replicas: 1, Excluded: []int32{0}, Pods: []rollout.Pod{ready, other}},
	} {
		planned.Name, planned.Revision = "a", "2"
		f := verdictOn(map[string]*corev1.Pod{}, planned)
		// Nobody can be asked here.
		steps, release, err := (&Reconciler{}).Acquire(t.Context(), set, f, rollout.Plan(planned))
		if err != nil {
			t.Fatal(err)
		}
		if release(); len(steps) != 1 || steps[0].String() != want {
			t.Errorf("the steps are %v, want %s", steps, want)
		}
	}
}
