// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// mountPassword swaps the content of the mounted Secret as the kubelet does: password and revision at once, by a link.
func (p *redisPod) mountPassword(text, revision string) {
	p.Helper()
	version := "secrets/.." + revision
	if err := os.MkdirAll(p.path(version, "default"), 0o700); err != nil {
		p.Fatal(err)
	}
	p.write(version+"/default/password", text)
	p.write(version+"/default/"+plan.RevisionFile, revision)
	next := p.path("secrets", "..next")
	if err := os.Symlink(".."+revision, next); err != nil {
		p.Fatal(err)
	}
	if err := os.Rename(next, p.path("secrets", "..data")); err != nil {
		p.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..data", "default"), p.path("secrets", "default")); err != nil &&
		!errors.Is(err, os.ErrExist) {
		p.Fatal(err)
	}
}

func (p *redisPod) withPassword(number int, revision string) *plan.Plan {
	pl := p.plan(number, "50mb")
	pl.Credentials = map[string]string{"default": revision}
	return pl
}

// A real Redis gets another password: it is asked to restart before the pod has the password and refuses, it goes on
// and is well while the pod has it and the process does not, and from the restart on it takes the new one alone.
func TestPasswordOfARunningRedis(t *testing.T) {
	p := newRedisPod(t)
	if err := os.RemoveAll(p.path("secrets", "default")); err != nil {
		t.Fatal(err)
	}
	p.mountPassword(password, "r1")
	p.mount(p.withPassword(1, "r1"))
	p.status()
	p.run()
	first := p.api.await(p.pod, "health", isHealthy)
	p.wantReply("OK", "SET", "key", "value")

	client := p.client()
	before := p.await(client, "the process", isRunning)
	restart := func() error {
		_, err := client.Restart(p.ctx(), &agentv1.RestartRequest{
			Header: &agentv1.CallHeader{IdempotencyKey: "rotate", Term: 1}, Plan: encode(t, p.withPassword(2, "r2"))})
		return err
	}
	if err := restart(); status.Code(err) != codes.Aborted ||
		!strings.Contains(err.Error(), `credential "default": the pod does not have the changed password yet`) {
		t.Errorf("before the pod has the password: %v", err)
	}
	p.mountPassword("another", "r2")
	p.wantReply("PONG", "PING")
	if now := p.await(client, "the process", isRunning); now.GetPid() != before.GetPid() {
		t.Errorf("the process was touched: %v", now)
	}
	if err := restart(); err != nil {
		t.Fatal(err)
	}
	if got := p.callDone(client, "rotate"); got.GetPhase() != agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
		t.Fatalf("got %v", got)
	}
	last := p.api.await(p.pod, "health with the new password",
		func(r report.Report) bool { return isHealthy(r) && r.Starts == 2 && r.ConfigDigest == digest(2) })
	if last.Role != first.Role {
		t.Errorf("report is %+v", last)
	}
	if out, err := p.cli("GET", "key"); err == nil && out == "value" {
		t.Error("the old password is still good")
	}
	eventually(t, func() error {
		out, err := p.cliAs("another", "GET", "key")
		if err != nil || out != "value" {
			return fmt.Errorf("with the new password: %q, %v", out, err)
		}
		return nil
	})
	for _, r := range p.api.all() {
		if r.Health == report.Unhealthy {
			t.Errorf("it was reported as %+v", r)
		}
	}
}
