// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/agents/internal/testpostgres"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// withPostgreSQL has the pod's plan declare what a driver for PostgreSQL keeps and is asked, and starts a real server.
func (p *pod) withPostgreSQL(actions ...plan.Action) (*testpostgres.Server, *os.Process) {
	p.Helper()
	s := testpostgres.New(p.T)
	_, process := s.Start()
	p.password("postgres", testpostgres.Password)
	p.plan(plan.Plan{Actions: actions, Entities: []plan.EntityType{{Type: "role", Kind: "role"},
		{Type: "database", Kind: "database"}},
		Driver: &plan.Driver{Protocol: plan.ProtocolPostgreSQL, Address: s.Address, Username: "postgres",
			Password: &plan.SecretRef{Credential: "postgres", Key: "password"}}})
	return s, process
}

// A thousand roles are observed and changed in a few calls; the agent stays small.
func TestEntitiesOfPostgreSQL(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	s, _ := p.withPostgreSQL()
	p.start()
	c := p.operator()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	observe := &agentv1.ObserveEntitiesRequest{Type: "role"}
	begin := time.Now()
	for batch := range 2 {
		change := &agentv1.ChangeEntitiesRequest{Header: &agentv1.CallHeader{IdempotencyKey: fmt.Sprint("batch-", batch)},
			Type: "role"}
		for i := range 500 {
			name := fmt.Sprintf("user-%d-%d", batch, i)
			observe.Entities = append(observe.Entities, &agentv1.EntityQuery{Name: name, Password: "secret"})
			change.Changes = append(change.Changes,
				&agentv1.EntityChange{Name: name, Password: "secret", Intent: agentv1.EntityIntent_ENTITY_INTENT_CREATE,
					Parameters: map[string]string{"login": "yes"}})
		}
		// A call that is not at its end yet is asked for again.
		for {
			answer, err := c.ChangeEntities(ctx, change)
			if err != nil || answer.GetCall().GetPhase() == agentv1.CallPhase_CALL_PHASE_FAILED ||
				len(answer.GetProblems()) > 0 {
				t.Fatalf("got %v, %v", answer, err)
			}
			if answer.GetCall().GetPhase() == agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
				break
			}
		}
	}
	changed := time.Since(begin)
	states, err := c.ObserveEntities(ctx, observe)
	if err != nil || len(states.GetEntities()) != 1000 {
		t.Fatalf("%d are there, %v", len(states.GetEntities()), err)
	}
	for _, state := range states.GetEntities() {
		if state.GetOtherPassword() || state.GetParameters()["login"] != "yes" {
			t.Fatalf("got %v", state)
		}
	}
	if said := s.As("user-1-7", "secret", "postgres", "SELECT current_user"); said != "user-1-7" {
		t.Errorf("it logs in as %s", said)
	}
	for where, text := range map[string]string{"agent": p.said.String(), "server": s.Said()} {
		if strings.Contains(text, "secret") || strings.Contains(text, testpostgres.Password) {
			t.Errorf("a password is in the log of the %s", where)
		}
	}
	kib := memoryOf(t, p.pid)
	t.Logf("1000 roles changed in %v and observed in %v; %d KiB resident", changed, time.Since(begin)-changed, kib)
	if kib > 48<<10 {
		t.Errorf("%d KiB are resident: at most 48 MiB are allowed", kib)
	}
}

func TestQueriesAreActions(t *testing.T) {
	p := newPod(t)
	s, _ := p.withPostgreSQL(
		plan.Action{Name: "count", Query: &plan.Query{
			Statement: "SELECT count(*) AS roles, $1::text AS said FROM pg_roles WHERE rolname = $1",
			Arguments: []string{"${parameters.role}"}},
			Parameters: map[string]string{"role": "string"},
			Outputs:    map[string]string{"roles": "json[0].roles", "said": "json[0].said"}},
		plan.Action{Name: "settings", Query: &plan.Query{Statement: "SELECT name FROM pg_settings WHERE pending_restart"},
			Outputs: map[string]string{"pending": "stdout"}},
		plan.Action{Name: "reload", Query: &plan.Query{Statement: "SELECT pg_reload_conf() AS done"},
			Success: "json[0].done == 't'"},
		plan.Action{Name: "wrong", Query: &plan.Query{Statement: "SELECT * FROM nothing"}},
		plan.Action{Name: "long", Query: &plan.Query{Statement: "SELECT pg_sleep(1000)"}, TimeoutSeconds: 1},
		plan.Action{Name: "much", Query: &plan.Query{Statement: "SELECT repeat('x', 1000) FROM generate_series(1, 200)"}},
	)
	p.start()
	c := p.operator()
	calls := 0
	run := func(action string, parameters map[string]string) *agentv1.ActionRecord {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		calls++
		stream, err := c.Run(ctx, &agentv1.RunRequest{Header: &agentv1.CallHeader{IdempotencyKey: fmt.Sprint(calls)},
			Action: action, Parameters: parameters})
		if err != nil {
			t.Fatal(err)
		}
		var record *agentv1.ActionRecord
		for {
			update, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return record
			}
			if err != nil {
				t.Fatal(err)
			}
			if call := update.GetCall(); call != nil {
				record = call
			}
		}
	}
	if got := run("count", map[string]string{"role": "postgres"}); got.GetOutputs()["roles"] != "1" ||
		got.GetOutputs()["said"] != "postgres" {
		t.Errorf("got %v", got)
	}
	if got := run("count", map[string]string{"role": "-'; DROP TABLE x"}); got.GetOutputs()["roles"] != "0" {
		t.Errorf("got %v", got)
	}
	s.SQL("postgres", "ALTER SYSTEM SET max_connections = 55")
	if got := run("reload", nil); got.GetRecord().GetPhase() != agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
		t.Errorf("got %v", got)
	}
	// The server tells all of its processes of a change, one after the other.
	testpod.Eventually(t, func() error {
		if pending := run("settings", nil).GetOutputs()["pending"]; pending != `[{"name":"max_connections"}]` {
			return fmt.Errorf("what waits for a restart is %s", pending)
		}
		return nil
	})
	for action, says := range map[string]string{"wrong": `relation "nothing" does not exist`,
		"long": "killed at its deadline", "much": "wrote more than 128 KiB"} {
		if got := run(action, nil).GetRecord(); got.GetPhase() != agentv1.CallPhase_CALL_PHASE_FAILED ||
			!strings.Contains(got.GetMessage(), says) {
			t.Errorf("%s: got %v, want %q", action, got, says)
		}
	}
}
