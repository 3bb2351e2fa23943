// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// revised is a plan that asks for a password.
func (h *harness) revised(number int, revision string) *plan.Plan {
	p := h.plan(number)
	p.RestartDigest = digest(1000 + number)
	p.Credentials = map[string]string{"default": revision}
	return p
}

func (h *harness) revision(text string) {
	h.write(filepath.Join(h.dirs.Secrets, "default", plan.RevisionFile), text)
}

// wantDigests looks at the plan that the process is said to run with, and the part that a restart changes.
func (h *harness) wantDigests(config, restart string) {
	h.Helper()
	if got := h.status(); got.GetConfigDigest() != config || got.GetRestartDigest() != restart {
		h.Errorf("the digests are %s and %s, want %s and %s", got.GetConfigDigest(), got.GetRestartDigest(), config, restart)
	}
}

// A plan with a changed password waits for the mount, and the process runs on meanwhile.
func TestRestartWaitsForThePassword(t *testing.T) {
	inPod(t, func(h *harness) {
		h.revision("r1")
		h.mount(h.revised(1, "r1"))
		h.begin()
		h.settle()
		h.wantDigests(digest(1), digest(1001))
		h.refused(supervisor.Restart("k", 0, h.revised(2, "r2")), supervisor.ErrSecretsPending)
		h.refused(supervisor.Reload("k2", 0, h.revised(2, "r2")), supervisor.ErrSecretsPending)
		h.want(running)
		if h.launcher.count() != 1 {
			t.Error("the process was touched")
		}
		h.secret("hunter3")
		h.revision("r2")
		h.call(supervisor.Restart("k", 0, h.revised(2, "r2")))
		h.settle()
		h.wantOutcome("k", succeeded, "")
		h.wantDigests(digest(2), digest(1002))
		if got := h.config(); got != "number 2\nrequirepass hunter3\n" {
			t.Errorf("the configuration is %q", got)
		}
	})
}

// A plan that says that a reload takes a password over has it in the files, and the process runs on.
func TestReloadTakesOverAPassword(t *testing.T) {
	inPod(t, func(h *harness) {
		var seen string
		h.launcher.reload = func(context.Context, ...string) error { seen = h.config(); return nil }
		revised := func(number int, revision string) *plan.Plan {
			p := h.revised(number, revision)
			p.RestartDigest, p.Process.Reload = digest(1000),
				&plan.Reload{Command: []string{"reload"}, Credentials: []string{"default"}}
			return p
		}
		h.revision("r1")
		h.mount(revised(1, "r1"))
		h.begin()
		h.settle()
		h.refused(supervisor.Reload("k", 0, revised(2, "r2")), supervisor.ErrSecretsPending)
		h.secret("hunter3")
		h.revision("r2")
		h.call(supervisor.Reload("k", 0, revised(2, "r2")))
		h.wantOutcome("k", succeeded, "")
		h.wantDigests(digest(2), digest(1000))
		if seen != "number 2\nrequirepass hunter3\n" || h.launcher.count() != 1 {
			t.Errorf("the configuration was %q, and the process was started %d times", seen, h.launcher.count())
		}
	})
}

// A process that is started again for another reason takes the password that is there, and says that it is not the
// plan's.
func TestAnotherPasswordThanThePlansIsReported(t *testing.T) {
	inPod(t, func(h *harness) {
		h.revision("r1")
		h.mount(h.revised(1, "r1"))
		h.begin()
		h.settle()
		h.secret("hunter3")
		h.revision("r2")
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.settle()
		h.want(running)
		h.wantDigests(report.DigestMixed, report.DigestMixed)
		h.call(supervisor.Restart("k", 0, h.revised(2, "r2")))
		h.settle()
		h.wantDigests(digest(2), digest(1002))
	})
}
