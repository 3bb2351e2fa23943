// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// What serves is told of a new set once that runs.
func TestSetsThatRestartTogetherAwaitNewSets(t *testing.T) {
	named := func(sets ...string) platformv1.WorkloadSetSpec {
		text := ""
		for _, set := range sets {
			text += fmt.Sprintf("http://a-minio-%s-{0...3} ", set)
		}
		return platformv1.WorkloadSetSpec{Replicas: 4, RestartStrategy: platformv1.RestartAllAtOnce,
			Plan: runtime.RawExtension{Raw: []byte(text)}}
	}
	set := func(name string, spec platformv1.WorkloadSetSpec, pods, updated int32) *platformv1.WorkloadSet {
		return &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "a-minio-" + name}, Spec: spec,
			Status: platformv1.WorkloadSetStatus{Replicas: pods, UpdatedReplicas: updated}}
	}
	both := &render.ComponentOutput{WorkloadSets: []render.WorkloadSetOutput{
		{Name: "a-minio-first", Spec: named("first", "second")}, {Name: "a-minio-second", Spec: named("first", "second")},
	}}
	oneByOne := named("first", "second")
	oneByOne.RestartStrategy = ""
	stopped := named("first", "second")
	stopped.Running = new(false)
	for name, c := range map[string]struct {
		there  []*platformv1.WorkloadSet
		wanted *platformv1.WorkloadSet
		want   bool
	}{
		"the other is not made": {[]*platformv1.WorkloadSet{set("first", named("first"), 4, 4)},
			set("first", named("first", "second"), 0, 0), true},
		"the other has no pods": {[]*platformv1.WorkloadSet{set("first", named("first"), 4, 4),
			set("second", named("first", "second"), 0, 0)}, set("first", named("first", "second"), 0, 0), true},
		"one of its pods does not run": {[]*platformv1.WorkloadSet{set("first", named("first"), 4, 4),
			set("second", named("first", "second"), 4, 3)}, set("first", named("first", "second"), 0, 0), true},
		"all of its pods run": {[]*platformv1.WorkloadSet{set("first", named("first"), 4, 4),
			set("second", named("first", "second"), 4, 4)}, set("first", named("first", "second"), 0, 0), false},
		"the new one waits for nobody": {[]*platformv1.WorkloadSet{set("first", named("first"), 4, 4)},
			set("second", named("first", "second"), 0, 0), false},
		"it knows the other": {[]*platformv1.WorkloadSet{set("first", named("first", "second"), 4, 4),
			set("second", named("first", "second"), 4, 3)}, set("first", named("first", "second"), 0, 0), false},
		"both are made": {nil, set("first", named("first", "second"), 0, 0), false},
		"nothing of it runs": {[]*platformv1.WorkloadSet{set("first", named("first"), 0, 0)},
			set("first", named("first", "second"), 0, 0), false},
		"it is to stop": {[]*platformv1.WorkloadSet{set("first", named("first"), 4, 4)},
			set("first", stopped, 0, 0), false},
		"processes restart one by one": {[]*platformv1.WorkloadSet{set("first", named("first"), 4, 4)},
			set("first", oneByOne, 0, 0), false},
		"a name that begins like it is": {[]*platformv1.WorkloadSet{set("first", named("first", "second2"), 4, 4)},
			set("first", named("first", "second"), 0, 0), true},
	} {
		f := &facts{sets: map[string]*platformv1.WorkloadSet{}}
		for _, one := range c.there {
			f.sets[one.Name] = one
		}
		if got := f.awaits(c.wanted, both); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
