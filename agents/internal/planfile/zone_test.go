// SPDX-License-Identifier: Apache-2.0

package planfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

func TestZoneOfTheNodeIsPutIn(t *testing.T) {
	d := pod(t)
	d.Pod = t.TempDir()
	p := valid(d, 1)
	p.Process.Command = []string{"server", "--rack=${pod.zone}"}
	file := filepath.Join(d.Pod, plan.ZoneFile)
	for _, content := range []string{"no file", "", "null", "eu-1a", `"eu-1a`} {
		if content != "no file" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Parse(encode(t, p)); !errors.Is(err, podtext.ErrZoneUnknown) {
			t.Errorf("with %q the plan is taken, or refused otherwise: %v", content, err)
		}
	}
	for content, want := range map[string]string{`"eu-1a"`: "--rack=eu-1a", `""`: "--rack="} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if here, err := d.Expand(p); err != nil || here.Process.Command[1] != want {
			t.Errorf("with %s the pod runs %v: %v", content, here, err)
		}
	}
}
