// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A job gets the volumes of a pod neither while that is there nor while it may be made again.
func TestVolumesOfAPodThatMayRunAreNotGivenToAJob(t *testing.T) {
	f := newFixture(t, 1)
	f.stopAgents(0)
	c := &Controller{live: f.client(env.System.Config)}
	says := func(want string) {
		t.Helper()
		answer, err := c.mayHaveVolumes(t.Context(), f.namespace, podName(0))
		switch {
		case err != nil:
			t.Error(err)
		case want == "" && answer != nil:
			t.Errorf("it is refused: %s", answer.Problem)
		case want != "" && (answer == nil || !strings.Contains(answer.Problem, want)):
			t.Errorf("it says %+v, want %q", answer, want)
		}
	}
	says(setName + " is running")
	set := &platformv1.WorkloadSet{}
	if err := env.Client.Get(t.Context(), types.NamespacedName{Namespace: f.namespace, Name: setName}, set); err != nil {
		t.Fatal(err)
	}
	before := set.DeepCopy()
	set.Spec.Running = ptr(false)
	if err := env.Client.Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	says("pod " + podName(0) + " is there")
	if err := env.Client.Delete(t.Context(), f.pod(0), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	says("")
	if _, err := c.mayHaveVolumes(t.Context(), f.namespace, "other-main-0"); err == nil {
		t.Error("a pod of no set has volumes")
	}
}
