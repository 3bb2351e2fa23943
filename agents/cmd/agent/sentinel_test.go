// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testexec"
	"github.com/zeroinfra/agents/internal/writing"
	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// heldUp is how long after its permission a primary may go on where PID 1 is held up.
const heldUp = permission.Validity + time.Second

// A sentinel that cannot be one says why in a line like all of the log that it is part of.
func TestASentinelSaysWhyItEnds(t *testing.T) {
	cmd := exec.Command(ownPath(t), writing.SentinelCommand)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	said := &strings.Builder{}
	cmd.Stderr = said
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ends with %v", exit)
	}
	var line struct{ Level, Msg, Error string }
	if err := json.Unmarshal([]byte(said.String()), &line); err != nil || line.Level != "ERROR" ||
		line.Msg != "the sentinel ends" ||
		line.Error != "only the process manager of a container starts it, as PID 1 there" {
		t.Errorf("it says %q: %v", said, err)
	}
}

func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// isZombie says whether a process has ended and was not collected yet, or is about to end by SIGKILL.
func isZombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(data)) {
		if state, found := strings.CutPrefix(line, "State:"); found && strings.Contains(state, "Z") {
			return true
		}
		// Bit 8 is SIGKILL.
		if pending, found := strings.CutPrefix(line, "ShdPnd:"); found {
			mask, err := strconv.ParseUint(strings.TrimSpace(pending), 16, 64)
			if err == nil && mask&(1<<8) != 0 {
				return true
			}
		}
	}
	return false
}

// settled is below when no command runs beside the two.
func (m *memberPod) settled() (server, sentinel int) {
	m.Helper()
	eventually(m.T, func() error {
		if server, sentinel = m.below(); server == 0 || sentinel == 0 {
			return fmt.Errorf("the server is %d, the sentinel %d; log:\n%s", server, sentinel, m.stderr)
		}
		return nil
	})
	return server, sentinel
}

// wantEnd checks that the server ends in time after a moment, and takes no write later.
func (m *memberPod) wantEnd(server int, since time.Duration) {
	m.Helper()
	eventually(m.T, func() error {
		if !isZombie(server) {
			return errors.New("the server goes on")
		}
		return nil
	})
	if took := writing.Boottime() - since; took < permission.Validity-writing.Period || took > heldUp {
		m.Errorf("the server ended after %v", took)
	}
	if primaryPeriods := m.set.primaryPeriods(); primaryPeriods[0].last > since+heldUp {
		m.Errorf("a write was taken after %v", primaryPeriods[0].last-since)
	}
}

// TestAPrimaryEndsWhilePID1IsStopped, and PID 1 alone, with connections open.
func TestAPrimaryEndsWhilePID1IsStopped(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.bootstrap()
	defer s.writingClients()()
	primary := s.members[0]
	s.awaitWrites(primary)
	pid := primary.process.inner()
	server, _ := primary.settled()
	stop(t, pid)
	primary.wantEnd(server, writing.Boottime())
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// It is the primary again, by another permission, and stays that.
	primary.starts(2)
	primary.awaitsWriting()
	again, _ := primary.settled()
	awaitTime(t, writing.Boottime()+permission.Validity+time.Second)
	if now := primary.server(); now != again || now == 0 {
		t.Errorf("the server %d is %d now; log:\n%s", again, now, primary.stderr)
	}
}

// TestAPrimaryGoesOnWhileACommandIsLoaded: one thread of PID 1 waits in the kernel meanwhile, and the permission is
// looked after all the same.
func TestAPrimaryGoesOnWhileACommandIsLoaded(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	primary, slow := s.members[0], testexec.Hold(t)
	pl := primary.plan()
	pl.Process.Reload = &plan.Reload{Command: []string{slow.Path}, TimeoutSeconds: 60}
	primary.mount(pl)
	s.bootstrap()
	defer s.writingClients()()
	s.awaitWrites(primary)
	server, _ := primary.settled()
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, _ = primary.control.Reload(ctx, &agentv1.ReloadRequest{Header: &agentv1.CallHeader{IdempotencyKey: "slow"}})
	}()
	eventually(t, func() error {
		if !slow.Wanted() {
			return fmt.Errorf("the reload has not begun; log:\n%s", primary.stderr)
		}
		return nil
	})
	awaitTime(t, writing.Boottime()+permission.Validity+time.Second)
	slow.Release()
	primary.awaitsWriting()
	if isZombie(server) {
		t.Errorf("the server has ended; log:\n%s", primary.stderr)
	}
}

// TestTheSentinelLeavesOthersAlone: a follower that was the primary goes on after the time of its permission, and so
// does a primary whose sentinel is replaced.
func TestTheSentinelLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	s := newSet(t, 2)
	s.bootstrap()
	old, next := s.members[0], s.members[1]
	old.awaitsWriting()
	s.put(s.get().Depose(), nil)
	s.promise(old)
	s.promise(next)
	s.put(s.get().Name(next.member()))
	s.tell(next, old)
	old.says("follower " + next.fqdn())
	next.says("writer")
	follower, _ := old.settled()
	primary, sentinel := next.settled()
	if err := syscall.Kill(sentinel, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, another := next.below(); another == 0 || another == sentinel {
			return fmt.Errorf("the sentinel %d is %d now", sentinel, another)
		}
		return nil
	})
	awaitTime(t, writing.Boottime()+permission.Validity+time.Second)
	if now := old.server(); now != follower || now == 0 {
		t.Errorf("the follower %d is %d now; log:\n%s", follower, now, old.stderr)
	}
	if now := next.server(); now != primary || now == 0 {
		t.Errorf("the primary %d is %d now; log:\n%s", primary, now, next.stderr)
	}
}
