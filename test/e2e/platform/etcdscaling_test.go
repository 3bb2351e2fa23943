// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestEtcdScaling scales an etcd from three members to five, back to three and to five again, under writes: none that
// was acknowledged is lost, the members that stay are the same in the same processes, and those that come again copy
// the data anew.
func TestEtcdScaling(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "etcdscaling")
	e := &etcd{Application: s.CreateApplication("store", etcdApplication()), scheme: "http"}
	t.Logf("apply to Ready of three members: %s", framework.FormatSeconds(e.WaitReady()))
	stays := e.member(0)
	uids, processes := e.UIDs(), e.processes()
	first := e.memberIDs(stays)
	w := e.startWriter(stays)

	grown := e.scales(5, first)
	e.sameProcesses(uids, processes)
	w.acknowledgedAgain()
	e.leads(e.member(4), grown)
	e.scales(3, first)
	e.sameProcesses(uids, processes)
	w.acknowledgedAgain()
	again := e.scales(5, first)
	for _, n := range []int{3, 4} {
		if pod := e.member(n); again[pod] == grown[pod] {
			e.Errorf("%s was removed as %s and is that again", pod, again[pod])
		}
	}
	w.acknowledgedAgain()
	w.stop(framework.FailoverGapLimit)
	want := e.mustCtl(stays, e.local(), "get", "--prefix", "w:", "--keys-only")
	e.Eventually(framework.SettleTimeout, "the member that came last has all writes", func() error {
		out, err := e.ctl(e.member(4), e.local(), "get", "--prefix", "w:", "--keys-only", "--consistency=s")
		if err == nil && out != want {
			err = fmt.Errorf("it has %d bytes of keys, want %d", len(out), len(want))
		}
		return err
	})
}

// member is the name of a pod by its ordinal.
func (e *etcd) member(n int) string {
	return platformv1.PodNameFor(platformv1.WorkloadSetNameFor(e.Name, etcdComponent, platformv1.DefaultSet), int32(n))
}

// scales has so many members. Those that are given are among them. It returns the IDs of all.
func (e *etcd) scales(to int32, stay map[string]string) map[string]string {
	e.Helper()
	e.Update(framework.WithComponentReplicas(etcdComponent, to))
	e.Logf("%d members after %s", to, framework.FormatSeconds(e.WaitReady()))
	ids := map[string]string{}
	e.Eventually(framework.SettleTimeout, fmt.Sprintf("there are %d members and pods", to), func() error {
		ids = e.memberIDs(e.member(0))
		if pods := e.Pods(); len(ids) != int(to) || len(pods) != int(to) {
			return fmt.Errorf("the members are %v, and there are %d pods", ids, len(pods))
		}
		return nil
	})
	for pod, id := range stay {
		if ids[pod] != id {
			e.Errorf("member %s had the ID %s and has %s", pod, id, ids[pod])
		}
	}
	return ids
}

// sameProcesses: scaling restarts no member that stays.
func (e *etcd) sameProcesses(uids map[string]types.UID, processes map[string]string) {
	e.Helper()
	nowUIDs, nowProcesses := e.UIDs(), e.processes()
	for pod := range processes {
		if nowUIDs[pod] != uids[pod] || nowProcesses[pod] != processes[pod] {
			e.Errorf("pod %s was %s with process %s and is %s with %s",
				pod, uids[pod], processes[pod], nowUIDs[pod], nowProcesses[pod])
		}
	}
}

// leads has a member lead.
func (e *etcd) leads(pod string, ids map[string]string) {
	e.Helper()
	e.Eventually(framework.SettleTimeout, pod+" leads", func() error {
		roles := e.byRole()
		if len(roles["leader"]) != 1 {
			return fmt.Errorf("the roles are %v", maps.Clone(roles))
		}
		if roles["leader"][0] == pod {
			return nil
		}
		if _, err := e.ctl(roles["leader"][0], e.local(), "move-leader", ids[pod]); err != nil {
			return err
		}
		return fmt.Errorf("the roles are %v", roles)
	})
}
