// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"strings"
	"syscall"
	"testing"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// TestLogsAreTheEndOfWhatTheProcessWrote, while the container's log has all of it, and what comes later follows.
func TestLogsAreTheEndOfWhatTheProcessWrote(t *testing.T) {
	p := newPod(t)
	pl := script(`trap 'echo later' HUP; echo first; echo trouble >&2; echo up; while :; do sleep 0.05; done`)
	pl.Process.Signals = []string{"SIGHUP"}
	p.mount(pl)
	p.run()
	client := p.client()
	p.await(client, "the process", isRunning)
	p.awaitOutput("first\nup\n")
	stream, err := client.Logs(p.ctx(), &agentv1.LogsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr string
	until := func(done func() bool) {
		t.Helper()
		for !done() {
			piece, err := stream.Recv()
			if err != nil || piece.GetMissedBytes() != 0 {
				t.Fatalf("got %v, %v after %q and %q", piece, err, stdout, stderr)
			}
			stdout, stderr = stdout+string(piece.GetStdout()), stderr+string(piece.GetStderr())
		}
	}
	until(func() bool { return stdout == "first\nup\n" && stderr == "trouble\n" })
	if _, err := client.Signal(p.ctx(),
		&agentv1.SignalRequest{Header: &agentv1.CallHeader{IdempotencyKey: "hup"}, Signal: "SIGHUP"}); err != nil {
		t.Fatal(err)
	}
	until(func() bool { return strings.HasSuffix(stdout, "later\n") })
	short, err := client.Logs(p.ctx(), &agentv1.LogsRequest{TailBytes: 3})
	if err != nil {
		t.Fatal(err)
	}
	if piece, err := short.Recv(); err != nil || string(piece.GetStdout()) != "er\n" {
		t.Errorf("the last 3 bytes are %v, %v", piece, err)
	}
	if piece, err := short.Recv(); err == nil {
		t.Errorf("it goes on with %v", piece)
	}
}

// TestWhyAProcessEndsIsTold: the status has the words of the process, and not only its exit code.
func TestWhyAProcessEndsIsTold(t *testing.T) {
	p := newPod(t)
	p.mount(script(`echo up; echo 'fatal: no model' >&2; exit 3`))
	p.run()
	p.await(p.client(), "the last words", func(status *agentv1.ProcessStatus) bool {
		return status.GetMessage() == "the process ended by itself: exit code 3: fatal: no model"
	})
}

// TestTheLastWordsAreNotLost: what a process writes when it ends is in the container's log when that ends.
func TestTheLastWordsAreNotLost(t *testing.T) {
	p := newPod(t)
	p.mount(script(`trap 'i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done; echo goodbye; exit 0' TERM; ` +
		`echo up; while :; do sleep 0.05; done`))
	c := p.run()
	p.awaitOutput("up\n")
	if code := c.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := p.stdout.String(); !strings.HasSuffix(got, "line 1999\ngoodbye\n") {
		t.Errorf("the output ends with %q", got[max(0, len(got)-100):])
	}
}
