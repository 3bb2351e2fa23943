// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// An agent that an Operation has called does not do any more what an operator asks that has missed the present writer
// of the set.
func TestStepsAreCalledInTheTermOfTheSet(t *testing.T) {
	f := newFixture(t, 2)
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: setName}}
	if err := testkit.Edit(t.Context(), env.Client, set, func() {
		set.Spec.Authority, set.Spec.Failover = "engine",
			&platformv1.SetFailover{Order: "0", Failover: platformv1.Failover{Mode: platformv1.FailoverAuto}}
	}); err != nil {
		t.Fatal(err)
	}
	before := set.DeepCopy()
	set.Status.Primary = &platformv1.PrimaryRecord{Term: 3,
		Member: &platformv1.SetMember{Name: podName(0), Identity: "0123456789abcdef0123456789abcdef"}}
	if err := env.Client.Status().Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	f.controller(nil)
	f.waitPhase(f.operation("restart", "Restart", nil), platformv1.OperationSucceeded)
	connections := agentclient.New(f.authority, agentclient.WithPort(f.port))
	t.Cleanup(connections.Close)
	for ordinal := range 2 {
		process, err := connections.Dial(t.Context(), f.pod(ordinal))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := process.Stop(agentclient.Within(t.Context(), 2), "late"); err == nil ||
			!strings.Contains(err.Error(), "2 is lower than 3") {
			t.Errorf("pod %d is asked in term 2: %v", ordinal, err)
		}
		if _, err := process.Signal(agentclient.Within(t.Context(), 3), "in time", "SIGHUP"); err != nil {
			t.Errorf("pod %d is asked in term 3: %v", ordinal, err)
		}
	}
}
