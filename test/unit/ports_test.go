// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// An operator whose traffic is restricted by its chart reaches the agents that it calls.
func TestOperatorsReachAgents(t *testing.T) {
	files, err := filepath.Glob("../../charts/*-operator/templates/networkpolicy.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no policies: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, egress, found := strings.Cut(string(text), "egress:")
		for _, port := range []int{plan.ProcessPort, plan.OpsPort} {
			if !found || !strings.Contains(egress, fmt.Sprintf("- port: %d\n", port)) {
				t.Errorf("%s lets nothing out to port %d of the agents", file, port)
			}
		}
	}
}
