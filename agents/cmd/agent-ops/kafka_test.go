// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/testkafka"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// withKafka has the pod's plan declare topics, and an action that asks about the cluster.
func (p *pod) withKafka() *testkafka.Cluster {
	p.Helper()
	c := testkafka.New(p.T, 1)
	p.password("admin", testkafka.AdminPassword)
	if err := os.MkdirAll(p.path("certs"), 0o750); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(p.path("certs", plan.CAFile), must(os.ReadFile(c.CAFile)), 0o600); err != nil {
		p.Fatal(err)
	}
	p.plan(plan.Plan{
		Entities: []plan.EntityType{{Type: "topic", Kind: "topic"}, {Type: "user", Kind: "user"}},
		Actions: []plan.Action{{Name: "cluster", Query: &plan.Query{Statement: "cluster"},
			Outputs: map[string]string{"id": "json[0].cluster", "partitions": "json[0].partitions"}}},
		Driver: &plan.Driver{Protocol: plan.ProtocolKafka, Address: c.Nodes[0].Address, TLS: true, Username: testkafka.Admin,
			Password: &plan.SecretRef{Credential: "admin", Key: "password"}},
	})
	return c
}

// A thousand topics are observed and changed in a few calls; the agent stays small.
func TestEntitiesOfKafka(t *testing.T) {
	p := newPod(t)
	cluster := p.withKafka()
	p.start("--certificates-dir", p.path("certs"))
	c := p.operator()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	observe := &agentv1.ObserveEntitiesRequest{Type: "topic"}
	for batch := range 2 {
		change := &agentv1.ChangeEntitiesRequest{Header: &agentv1.CallHeader{IdempotencyKey: fmt.Sprint("batch-", batch)},
			Type: "topic"}
		for i := range 500 {
			name := fmt.Sprintf("topic-%d-%d", batch, i)
			observe.Entities = append(observe.Entities, &agentv1.EntityQuery{Name: name})
			change.Changes = append(change.Changes,
				&agentv1.EntityChange{Name: name, Intent: agentv1.EntityIntent_ENTITY_INTENT_CREATE,
					Parameters: map[string]string{"partitions": "1", "config": `{"retention.ms":"1000"}`,
						"access": `{"User:alice":["read"]}`}})
		}
		p.changed(ctx, c, change)
	}
	states, err := c.ObserveEntities(ctx, observe)
	if err != nil || len(states.GetEntities()) != 1000 {
		t.Fatalf("%d are there, %v", len(states.GetEntities()), err)
	}
	for _, state := range states.GetEntities() {
		if got := state.GetParameters(); got["config"] != `{"retention.ms":"1000"}` ||
			got["access"] != `{"User:alice":["read"]}` {
			t.Fatalf("got %v", state)
		}
	}
	p.changed(ctx, c, &agentv1.ChangeEntitiesRequest{Header: &agentv1.CallHeader{IdempotencyKey: "user"}, Type: "user",
		Changes: []*agentv1.EntityChange{
			{Name: "alice", Password: "hunter22", Intent: agentv1.EntityIntent_ENTITY_INTENT_CREATE,
				Parameters: map[string]string{"iterations": "4096"}}}})
	record, _, err := p.run(c, "cluster", "cluster", "")
	if err != nil || record.GetOutputs()["id"] != cluster.ID || record.GetOutputs()["partitions"] != "1000" {
		t.Errorf("the cluster is %v, %v", record, err)
	}
	if said := p.said.String(); strings.Contains(said, "hunter22") || strings.Contains(said, testkafka.AdminPassword) {
		t.Errorf("a password is in the log: %s", said)
	}
	p.probesKafka(cluster)
	kib := memoryOf(t, p.pid)
	t.Logf("%d KiB resident after 1000 topics", kib)
	if kib > 48<<10 {
		t.Errorf("%d KiB are resident: at most 48 MiB are allowed", kib)
	}
}

// probesKafka has the agent probe the broker and the controller, and what does not answer.
func (p *pod) probesKafka(c *testkafka.Cluster) {
	p.Helper()
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--address", c.Nodes[0].Address, "--tls", "--username", testkafka.Admin}, "controller:1\n"},
		{[]string{"--address", c.Nodes[0].Controller}, "controller:1\n"},
		{[]string{"--address", c.Nodes[0].Address, "--tls", "--username", "nobody"}, "cannot log in to Kafka"},
		{[]string{"--address", "127.0.0.1:1"}, "cannot reach Kafka at 127.0.0.1:1"},
	} {
		cmd := exec.Command(os.Args[0], append([]string{"kafka", "probe", "--patience", "1m", "--secrets-dir",
			p.path("secrets"), "--certificates-dir", p.path("certs")}, test.flags...)...)
		cmd.Env = append(os.Environ(), asAgent+"=1")
		said, _ := cmd.CombinedOutput()
		if !strings.Contains(string(said), test.want) || strings.Contains(string(said), testkafka.AdminPassword) {
			p.Errorf("%v says %q, want %q", test.flags, said, test.want)
		}
	}
}

// changed makes changes, none of which has a problem, and waits for their end.
func (p *pod) changed(ctx context.Context, c agentv1.OpsServiceClient, change *agentv1.ChangeEntitiesRequest) {
	p.Helper()
	for {
		answer, err := c.ChangeEntities(ctx, change)
		switch {
		case err != nil || len(answer.GetProblems()) > 0:
			p.Fatalf("got %v, %v", answer, err)
		case answer.GetCall().GetPhase() == agentv1.CallPhase_CALL_PHASE_SUCCEEDED:
			return
		case answer.GetCall().GetPhase() != agentv1.CallPhase_CALL_PHASE_RUNNING:
			p.Fatalf("got %v", answer)
		}
	}
}
