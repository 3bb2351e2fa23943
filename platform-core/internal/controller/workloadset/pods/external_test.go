// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
)

func TestAddressOfAPodIsPartOfItsConfigurationAlone(t *testing.T) {
	p := &plan.Plan{Digest: "all", RestartDigest: "all-restart",
		External: &plan.External{Pods: map[string]plan.ExternalAddress{
			"b-0": {Port: 1, Digest: "own", RestartDigest: "all-restart"},
		}}}
	for name, tc := range map[string]struct{ pod, reports, digest, restart string }{
		"with its address":               {"b-0", "own", "all", "all-restart"},
		"without it":                     {"b-0", "all", withoutAddress, "all-restart"},
		"with a configuration of before": {"b-0", "former", "former", "all-restart"},
		"before its first report":        {"b-0", "", "", "all-restart"},
		"that has no address":            {"b-1", "all", "all", "all-restart"},
	} {
		said := agentreport.Report{ConfigDigest: tc.reports, RestartDigest: "all-restart"}
		if shareDigests(p, tc.pod, &said); said.ConfigDigest != tc.digest || said.RestartDigest != tc.restart {
			t.Errorf("a pod %s counts as one with %q and %q, want %q and %q", name, said.ConfigDigest,
				said.RestartDigest, tc.digest, tc.restart)
		}
	}
	if lacksAddress(p, "b-0") || !lacksAddress(p, "b-1") || lacksAddress(&plan.Plan{}, "b-1") {
		t.Error("pods wait for an address that they have, or start without one that they need")
	}
}
