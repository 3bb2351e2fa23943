// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// tells is a shell hook that writes a line into the story of the pod.
func (p *pod) tells(word, then string) *plan.Hook {
	return &plan.Hook{Command: []string{"sh", "-c", fmt.Sprintf("echo %s >> %s; %s", word, p.path("run/story"), then)},
		TimeoutSeconds: 5}
}

// wantStory waits until hooks and processes have written these lines, and no other.
func (p *pod) wantStory(words ...string) {
	p.Helper()
	eventually(p.T, func() error {
		story, err := os.ReadFile(p.path("run/story"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if got := strings.Fields(string(story)); strings.Join(got, " ") != strings.Join(words, " ") {
			return fmt.Errorf("the story is %v, want %v; log:\n%s", got, words, p.stderr)
		}
		return nil
	})
}

// told is a process that writes its own part of the story.
func (p *pod) told() *plan.Plan {
	return script(fmt.Sprintf("trap 'echo down >> %[1]s; exit 0' TERM; echo up >> %[1]s; while :; do sleep 0.01; done",
		p.path("run/story")))
}

func TestHooksAreRunAroundTheProcess(t *testing.T) {
	p := newPod(t)
	told := p.told()
	told.Process.Hooks = &plan.Hooks{PreStart: p.tells("before", ":"), PostStart: p.tells("after", ":"),
		PreStop: p.tells("leaving", "exit 1")}
	p.mount(told)
	c, client := p.run(), p.client()
	p.await(client, "the process", isRunning)
	p.wantStory("before", "up", "after")
	if _, err := client.Restart(p.ctx(),
		&agentv1.RestartRequest{Header: &agentv1.CallHeader{IdempotencyKey: "restart"}}); err != nil {
		t.Fatal(err)
	}
	if got := p.callDone(client, "restart"); got.GetPhase() != agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
		t.Errorf("the restart is %v", got)
	}
	p.wantStory("before", "up", "after", "leaving", "down", "before", "up", "after")
	if code := c.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.wantStory("before", "up", "after", "leaving", "down", "before", "up", "after", "leaving", "down")
}

// TestAHookThatFailsSaysWhyWithoutItsSecrets, and the process starts once it has succeeded.
func TestAHookThatFailsSaysWhyWithoutItsSecrets(t *testing.T) {
	p := newPod(t)
	p.write("secrets/default/password", "hunter2")
	told := p.told()
	hook := &plan.Hook{Command: []string{"sh", "-c", "test -e " + p.path("run/room") +
		" || { echo no room for $PASSWORD >&2; exit 3; }"},
		Env: []plan.EnvVar{{Name: "PASSWORD", Secret: &plan.SecretRef{Credential: "default", Key: "password"}}}}
	told.Process.Hooks = &plan.Hooks{PreStart: hook}
	p.mount(told)
	p.run()
	client := p.client()
	status := p.await(client, "the failure",
		func(s *agentv1.ProcessStatus) bool { return s.GetState() == agentv1.ProcessState_PROCESS_STATE_BACKOFF })
	if got := status.GetMessage(); !strings.HasPrefix(got, "hook preStart: exit code 3: no room for ") ||
		strings.Contains(got, "hunter2") || strings.Contains(p.stderr.String(), "hunter2") {
		t.Errorf("it says %q", got)
	}
	p.wantStory()
	p.write("run/room", "")
	p.await(client, "the process", isRunning)
	p.wantStory("up")
}

// TestAHookThatHangsIsKilledWithAllThatItStarted at its deadline.
func TestAHookThatHangsIsKilledWithAllThatItStarted(t *testing.T) {
	p := newPod(t)
	told := p.told()
	told.Process.Hooks = &plan.Hooks{PreStart: &plan.Hook{TimeoutSeconds: 1, Command: []string{"sh", "-c",
		fmt.Sprintf("sleep 1000 & echo $! > %[1]s.new && mv %[1]s.new %[1]s; wait", p.path("run/child"))}}}
	p.mount(told)
	p.run()
	status := p.await(p.client(), "the failure",
		func(s *agentv1.ProcessStatus) bool { return s.GetState() == agentv1.ProcessState_PROCESS_STATE_BACKOFF })
	if got := status.GetMessage(); !strings.Contains(got, "hook preStart: killed at its deadline") {
		t.Errorf("it says %q", got)
	}
	child, err := os.ReadFile(p.path("run/child"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		state, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(child)), "stat"))
		if err == nil && !strings.Contains(string(state), ") Z ") {
			return fmt.Errorf("the child lives: %s", state)
		}
		return nil
	})
}

// TestHooksOfAPrimary: nothing is run on the data before a primary is named, a hook in the way keeps the named one
// down, and one that would be run before a stop does not hold up the end of a permission.
func TestHooksOfAPrimary(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	first, second := s.members[0], s.members[1]
	for _, m := range s.members {
		told := m.plan()
		told.Process.Hooks = &plan.Hooks{PreStart: m.tells("before", "test -e "+m.path("run/room")),
			PreStop: m.tells("leaving", "exec sleep 1000")}
		m.mount(told)
		m.begin()
	}
	eventually(t, func() error {
		if first.api.reads.Load() == 0 || second.api.reads.Load() == 0 {
			return errors.New("the API server was not asked")
		}
		return nil
	})
	first.wantStory()
	s.put(permission.Record{}.Bootstrap([]permission.Member{first.member(), second.member()}))
	s.put(s.get().Name(first.member()))
	first.await(first.control, "the hook to fail", func(status *agentv1.ProcessStatus) bool {
		return status.GetState() == agentv1.ProcessState_PROCESS_STATE_BACKOFF &&
			strings.Contains(status.GetMessage(), "hook preStart: exit code 1")
	})
	if first.server() != 0 || first.status().GetWriting() {
		t.Error("the primary runs, and its hook failed")
	}
	first.write("run/room", "")
	first.awaitsWriting()
	first.says("writer")
	s.put(s.get().Depose(), nil)
	s.promise(first)
	if story, err := os.ReadFile(first.path("run/story")); err != nil || strings.Contains(string(story), "leaving") {
		t.Errorf("the story is %q, %v", story, err)
	}
}
