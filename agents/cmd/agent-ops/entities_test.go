// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// withRedis has the pod's plan declare users, and starts a real Redis that its driver speaks with.
func (p *pod) withRedis(password string) {
	p.Helper()
	address := testnet.FreeAddress(p)
	_, port, _ := net.SplitHostPort(address)
	conf := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsave \"\"\nrequirepass %s\n", port, p.root, password)
	if err := os.WriteFile(p.path("redis.conf"), []byte(conf), 0o600); err != nil {
		p.Fatal(err)
	}
	p.password("default", password)
	p.plan(plan.Plan{Entities: []plan.EntityType{{Type: "acl-user", Kind: "acl-user"}},
		Driver: &plan.Driver{Protocol: plan.ProtocolRedis, Address: address,
			Password:     &plan.SecretRef{Credential: "default", Key: "password"},
			EntitiesFile: p.path("config", "users", "entities.conf")}})
	cmd := exec.Command("redis-server", p.path("redis.conf"))
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	testpod.Eventually(p.T, func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err
	})
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

// A thousand users are observed and changed in a few calls; the agent stays small.
func TestEntitiesOfRedis(t *testing.T) {
	p := newPod(t)
	p.withRedis("hunter2")
	p.start()
	c := p.operator()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	able, err := c.Capabilities(ctx, &agentv1.CapabilitiesRequest{})
	if err != nil || able.GetProtocol() != "redis" || strings.Join(able.GetEntityTypes(), " ") != "acl-user" {
		t.Fatalf("it can %v, %v", able, err)
	}
	observe := &agentv1.ObserveEntitiesRequest{Type: "acl-user"}
	for batch := range 2 {
		change := &agentv1.ChangeEntitiesRequest{Header: &agentv1.CallHeader{IdempotencyKey: fmt.Sprint("batch-", batch)},
			Type: "acl-user"}
		for i := range 500 {
			name := fmt.Sprintf("user-%d-%d", batch, i)
			observe.Entities = append(observe.Entities, &agentv1.EntityQuery{Name: name, Password: "secret"})
			change.Changes = append(change.Changes,
				&agentv1.EntityChange{Name: name, Password: "secret", Intent: agentv1.EntityIntent_ENTITY_INTENT_CREATE,
					Parameters: map[string]string{"enabled": "yes", "keys": "~" + name + ":*", "commands": "+@read"}})
		}
		answer, err := c.ChangeEntities(ctx, change)
		if err != nil || answer.GetCall().GetPhase() != agentv1.CallPhase_CALL_PHASE_SUCCEEDED ||
			len(answer.GetProblems()) > 0 {
			t.Fatalf("got %v, %v", answer, err)
		}
	}
	states, err := c.ObserveEntities(ctx, observe)
	if err != nil || len(states.GetEntities()) != 1000 {
		t.Fatalf("%d are there, %v", len(states.GetEntities()), err)
	}
	for _, state := range states.GetEntities() {
		if state.GetOtherPassword() || state.GetParameters()["keys"] != "~"+state.GetName()+":*" {
			t.Fatalf("got %v", state)
		}
	}
	if strings.Contains(p.said.String(), "secret") {
		t.Errorf("a password is in the log: %s", p.said.String())
	}
	kib := memoryOf(t, p.pid)
	t.Logf("%d KiB resident after 1000 users", kib)
	if kib > 48<<10 {
		t.Errorf("%d KiB are resident: at most 48 MiB are allowed", kib)
	}
	if _, err := c.ObserveEntities(ctx,
		&agentv1.ObserveEntitiesRequest{Type: "topic", Entities: observe.Entities[:1]}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown type: %v", err)
	}
}

// A middleware that does not let the agent in is told apart from an agent that cannot be reached.
func TestMiddlewareThatRefuses(t *testing.T) {
	p := newPod(t)
	p.withRedis("hunter2")
	p.password("default", "wrong")
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := p.operator().ObserveEntities(ctx,
		&agentv1.ObserveEntitiesRequest{Type: "acl-user", Entities: []*agentv1.EntityQuery{{Name: "a"}}})
	if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("got %v", err)
	}
}
