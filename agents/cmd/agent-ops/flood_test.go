// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/testflood"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// TestAMessageOfAGibibyteIsRefused without being taken in.
func TestAMessageOfAGibibyteIsRefused(t *testing.T) {
	p := newPod(t, plan.Action{Name: "greet", Command: []string{"echo", "hello"}})
	p.start()
	c := p.operator()
	if _, _, err := p.run(c, "before", "greet", ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	before := memoryOf(t, p.pid)
	err := testflood.Gibibyte(ctx, p.conn(p.ca, testpki.Operator), agentv1.OpsService_Run_FullMethodName)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	if grown := memoryOf(t, p.pid) - before; grown > 16<<10 {
		t.Errorf("the agent has grown by %d MiB", grown>>10)
	}
	if _, output, err := p.run(c, "after", "greet", ""); err != nil || output != "hello\n" {
		t.Errorf("the server is gone: %q, %v", output, err)
	}
}

// TestAFloodOfConnectionsIsRefused: those that never say who they are do not keep an operator out for long, and are not
// kept.
func TestAFloodOfConnectionsIsRefused(t *testing.T) {
	p := newPod(t, plan.Action{Name: "greet", Command: []string{"echo", "hello"}})
	p.start()
	known := p.operator()
	if _, _, err := p.run(known, "before", "greet", ""); err != nil {
		t.Fatal(err)
	}
	closed := testflood.Silent(t, p.listen, 1000)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := known.Capabilities(ctx, &agentv1.CapabilitiesRequest{}); err != nil {
			t.Errorf("a call on a connection from before: %v", err)
		}
		cancel()
	}
	if _, output, err := p.run(p.operator(), "during", "greet", ""); err != nil || output != "hello\n" {
		t.Errorf("a new connection: %q, %v", output, err)
	}
	closed()
}

// TestAFloodOfRunsIsRefused: a few actions run at once, the others are told to come again, and nothing that was refused
// is ever begun.
func TestAFloodOfRunsIsRefused(t *testing.T) {
	const flood = 200
	dir := t.TempDir()
	p := newPod(t, plan.Action{Name: "waits",
		Command: []string{"sh", "-c", "mktemp " + dir + "/began.XXXXXX; until [ -e " + dir + "/gate ]; do sleep 0.01; done"}})
	p.start()
	c := p.operator()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var calls sync.WaitGroup
	refused, ended := make(chan error, flood), make(chan agentv1.CallPhase, flood)
	for n := range flood {
		calls.Go(func() {
			record, _, err := followRun(ctx, c, fmt.Sprint(n), "waits", "")
			if err != nil {
				refused <- err
				return
			}
			ended <- record.GetRecord().GetPhase()
		})
	}
	const running = 4
	for range flood - running {
		if err := <-refused; status.Code(err) != codes.Unavailable ||
			!strings.Contains(err.Error(), "try again when one has ended") {
			t.Fatalf("got %v", err)
		}
	}
	if err := os.WriteFile(dir+"/gate", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	for range running {
		if phase := <-ended; phase != agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
			t.Errorf("a run ended %v", phase)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != running+1 {
		t.Errorf("%d actions have begun: %v", len(files)-1, err)
	}
}
