// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPID1KnowsNoExpressions: PID 1 stays beside every server for as long as it lives, and the expression engine of the
// status agent would more than double what it costs.
func TestPID1KnowsNoExpressions(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "../supervisor", "../server", "../callrecord", "../jsonlog")
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	said, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(said))
	if !slices.Contains(packages, "github.com/zeroinfra/agents/internal/reaper") {
		t.Fatalf("these are not all: %v", packages)
	}
	for _, name := range packages {
		if strings.Contains(name, "cel") && !strings.Contains(name, "cancel") ||
			strings.HasSuffix(name, "agents/internal/probe") {
			t.Errorf("PID 1 imports %s", name)
		}
	}
}
