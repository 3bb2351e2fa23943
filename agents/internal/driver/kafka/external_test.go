// SPDX-License-Identifier: Apache-2.0

//go:build processes

package kafka_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/kafka"
	"github.com/zeroinfra/agents/internal/testkafka"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// A cluster that is not in the pod is found by any of its brokers, whose certificates are for their names, and keeps
// topics with their access rules.
func TestAnExternalCluster(t *testing.T) {
	c := testkafka.New(t, 1)
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"account": testkafka.Admin + "\n", "account-password": testkafka.AdminPassword,
		"brokers-ca": string(ca)}
	secret := func(name string) *plan.SecretRef { return &plan.SecretRef{Credential: name, Key: "password"} }
	external := kafka.External{Account: secret("account"), Key: secret("account-password"), CA: secret("brokers-ca"),
		Secret: func(ref plan.SecretRef) (string, error) { return secrets[ref.Credential], nil },
		Settings: map[string]string{"bootstrap": "127.0.0.1:1," + c.Nodes[0].Address, "mechanism": "SCRAM-SHA-512",
			"security": "SASL_SSL"}}
	d := kafka.NewExternal(external)
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	if err := d.Check(ctx); err != nil {
		t.Fatal(err)
	}
	parameters := map[string]string{"partitions": "3", "config": `{"retention.ms":"1000"}`,
		"access": `{"User:alice":["read"]}`}
	problems, err := d.Change(ctx, kafka.KindTopic,
		[]driver.Change{{Query: driver.Query{Name: "orders"}, Intent: driver.Create, Parameters: parameters}})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	states, err := d.Observe(ctx, kafka.KindTopic, []driver.Query{{Name: "orders"}})
	if err != nil || len(states) != 1 {
		t.Fatal(states, err)
	}
	for name, want := range parameters {
		if got := states[0].Parameters[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	secrets["account-password"] = "another"
	if err := d.Check(ctx); !errors.Is(err, kafka.ErrAccount) {
		t.Errorf("with another password: %v", err)
	}
	external.CA = nil
	if err := kafka.NewExternal(external).Check(ctx); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with the authorities of the machine: %v", err)
	}
}
