// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

// Whoever may patch a pod can write there what he likes.
func FuzzParse(f *testing.F) {
	f.Add(report.Report{Health: report.Healthy, Role: "primary",
		LastCall: &report.Call{Key: "a/b", Phase: report.CallRunning}}.String())
	f.Add(`{"health":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		said, err := report.Parse(text)
		if err != nil {
			return
		}
		again, err := report.Parse(said.String())
		if err != nil || again.String() != said.String() {
			t.Errorf("%q is read as %s, and that as %s: %v", text, said, again, err)
		}
	})
}
