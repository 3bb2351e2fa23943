// SPDX-License-Identifier: Apache-2.0

package alone

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWhy: what a server says last before it gives up is why it ended. Whoever asks too early is none of the reasons.
func TestWhy(t *testing.T) {
	for log, want := range map[string]string{
		"LOG:  starting\nFATAL:  lock file \"postmaster.pid\" already exists\n": `lock file "postmaster.pid" already exists`,
		"PANIC:  could not locate a valid checkpoint record\nLOG:  startup process was aborted\n": "could not locate a " +
			"valid checkpoint record",
		"FATAL:  the database system is not accepting connections\n": "<nil>",
	} {
		heard := ""
		r := &Running{process: &exec.Cmd{}, ended: make(chan struct{}), hear: func(line string) { heard += line + "\n" }}
		r.listen(strings.NewReader(log))
		close(r.ended)
		if got := r.Why(); got != want || heard != log {
			t.Errorf("of %q it says %q, and heard %q", log, got, heard)
		}
	}
}
