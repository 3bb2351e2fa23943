// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

func TestPasswordIsThatOfTheProcess(t *testing.T) {
	p := newPod(t)
	s := action.NewSecrets(p.dirs)
	statuses := make(chan *agentv1.ProcessStatus)
	done := make(chan struct{})
	go func() { defer close(done); s.Follow(statuses) }()
	mount := func(password string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.dirs.Secrets, "root", "password"), []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// told has the status taken: the second send waits until the first was seen to.
	config := "sha256:1"
	told := func(pid, starts int64) {
		statuses <- &agentv1.ProcessStatus{Pid: pid, Starts: starts, ConfigDigest: config}
		statuses <- nil
	}
	expect := func(when, want string) {
		t.Helper()
		if got, err := s.Lookup(plan.SecretRef{Credential: "root", Key: "password"}); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", when, got, err, want)
		}
	}
	expect("before a process is seen", "hunter2")
	told(7, 1)
	mount("changed")
	expect("while the process runs on", "hunter2")
	told(0, 2)
	told(7, 1)
	expect("after the process manager was away", "hunter2")
	told(7, 2)
	expect("after a restart", "changed")
	mount("again")
	told(7, 2)
	expect("before a reload", "changed")
	config = "sha256:2"
	told(7, 2)
	expect("after a reload that took something else over", "again")
	if _, err := s.Lookup(plan.SecretRef{Credential: "nobody", Key: "password"}); err == nil {
		t.Error("a credential that is not there is found")
	}
	close(statuses)
	<-done
}
