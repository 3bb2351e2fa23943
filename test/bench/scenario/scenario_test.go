// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"

	"github.com/zeroinfra/test/bench/result"
)

func TestActor(t *testing.T) {
	for user, want := range map[string]string{
		"system:serviceaccount:zeroinfra-system:controller-manager":   result.Operator,
		"system:serviceaccount:kube-system:endpointslice-controller":  result.Controllers,
		"system:serviceaccount:apps-00:app-0000-cell-main":            result.Others,
		"system:serviceaccount:zeroinfra-system-2:controller-manager": result.Others,
		"system:kube-controller-manager":                              result.Controllers,
		"system:kube-scheduler":                                       result.Scheduler,
		"system:apiserver":                                            result.Others,
		"bench:kwok":                                                  result.Nodes,
		"bench:kubelet":                                               result.Nodes,
		"bench:agents":                                                result.Agents,
		"bench:driver":                                                result.Bench,
	} {
		if got := actor(user); got != want {
			t.Errorf("%s is of %s, want %s", user, got, want)
		}
	}
}

func TestTouchedAndReplaced(t *testing.T) {
	before := map[string]string{"same": "u1 1", "changed": "u2 1", "other": "u3 1", "gone": "u4 1"}
	after := map[string]string{"same": "u1 1", "changed": "u2 2", "other": "u5 3", "new": "u6 1"}
	if got := touched(before, after); got != 4 {
		t.Errorf("%d are touched, want 4", got)
	}
	if got := replaced(before, after); got != 3 {
		t.Errorf("%d are replaced, want 3", got)
	}
	if touched(before, before) != 0 || replaced(before, before) != 0 {
		t.Error("nothing happened, and something is counted")
	}
}
