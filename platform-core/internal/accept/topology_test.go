// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// A topology changes where the plugin says that it goes on from the one before, and no other way.
func TestTopologyChanges(t *testing.T) {
	bundle := load(t, "redis").State.Bundle
	for name, tc := range map[string]struct{ was, is, refused string }{
		"made":          {"", "sentinel", ""},
		"as it was":     {"sentinel", "sentinel", ""},
		"gets replicas": {"standalone", "replication", ""},
		"is to be alone": {"replication", "standalone",
			`topology cannot change from "replication" to "standalone": no topology can change to it; set it back`},
		"is to be elected":  {"replication", "sentinel", `from "replication" to "sentinel"`},
		"elected no longer": {"sentinel", "replication", "it can change from standalone only"},
	} {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			app.Spec.Topology = tc.is
			f := Facts{State: plugin.State{Bundle: bundle}, Components: map[string]*platformv1.Component{}}
			if tc.was != "" {
				f.Components["redis"] = &platformv1.Component{Spec: platformv1.ComponentSpec{Component: "redis", Topology: tc.was}}
			}
			_, refusals := Check(app, f)
			switch {
			case tc.refused == "" && len(refusals) > 0:
				t.Errorf("refused: %v", refusals[0])
			case tc.refused != "" && (len(refusals) != 1 || !strings.Contains(refusals[0].Message, tc.refused)):
				t.Errorf("got %v, want %q", refusals, tc.refused)
			}
		})
	}
}
