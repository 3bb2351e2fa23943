// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// onVolume is a pod whose server works in the folder.
func onVolume(t *testing.T, folder string) *pod {
	t.Helper()
	p := newPod(t)
	pl := script("echo up; exec sleep 1000")
	pl.Process.Dir = folder
	p.mount(pl)
	return p
}

func isWaiting(s *agentv1.ProcessStatus) bool {
	return s.GetState() == agentv1.ProcessState_PROCESS_STATE_STARTING && s.GetPid() == 0 &&
		strings.Contains(s.GetMessage(), "another process manager still has it")
}

func TestTwoPodsNeverRunOnOneVolume(t *testing.T) {
	for name, end := range map[string]func(first *container, server int){
		"the first is stopped": func(first *container, _ int) { first.stop(syscall.SIGTERM) },
		"the first and its server are killed": func(first *container, server int) {
			first.stop(syscall.SIGKILL)
			syscall.Kill(server, syscall.SIGKILL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			old, next := onVolume(t, folder), onVolume(t, folder)
			first := old.run()
			status := old.await(old.client(), "the first process", isRunning)
			next.run()
			client := next.client()
			next.await(client, "the wait", isWaiting)
			end(first, int(status.GetPid()))
			next.await(client, "the second process", isRunning)
			if got := next.stdout.String(); got != "up\n" {
				t.Errorf("the output is %q", got)
			}
		})
	}
}

// TestServerThatOutlivesItsPID1KeepsItsVolume kills a process manager alone, outside of a PID namespace, where the
// kernel does not end the server with it.
func TestServerThatOutlivesItsPID1KeepsItsVolume(t *testing.T) {
	folder := t.TempDir()
	old, next := onVolume(t, folder), onVolume(t, folder)
	first := old.run()
	server := int(old.await(old.client(), "the first process", isRunning).GetPid())
	first.stop(syscall.SIGKILL)
	if err := syscall.Kill(server, 0); err != nil {
		t.Fatalf("the server did not outlive it, so the test shows nothing: %v", err)
	}
	next.run()
	client := next.client()
	next.await(client, "the wait", isWaiting)
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next.await(client, "the second process", isRunning)
}

func TestContainersOfOnePodFollowEachOther(t *testing.T) {
	p := onVolume(t, t.TempDir())
	for n := range 3 {
		c := p.run()
		eventually(t, func() error {
			if got := strings.Count(p.stdout.String(), "up\n"); got != n+1 {
				return fmt.Errorf("%d starts; log:\n%s", got, p.stderr)
			}
			return nil
		})
		c.stop(syscall.SIGTERM)
	}
	if strings.Contains(p.stderr.String(), "waiting for the data folder") {
		t.Errorf("a container waited; log:\n%s", p.stderr)
	}
}
