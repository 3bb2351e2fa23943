// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestPostgreSQLFailoverSlots proves that a consumer of a logical slot with failover = true skips nothing over
// switchovers there and back, and that no former primary keeps a slot of its own, which would hold its log for ever.
func TestPostgreSQLFailoverSlots(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "slots")
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: framework.PostgreSQLVersion,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"wal_level": "logical", "hot_standby_feedback": "on", "max_wal_size": "64MB",
				"min_wal_size": "32MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Replicas: 1,
	}})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.WaitReady()
	p.WaitForReplicas(1)
	onPrimary(p, "CREATE TABLE kept (n int)")
	onPrimary(p, "SELECT slot_name FROM pg_create_logical_replication_slot('consumer', 'test_decoding', false, false, "+
		"true)")
	c := &slotConsumer{PostgreSQLInstance: p}
	for turn := range 2 {
		onPrimary(p, fmt.Sprintf("INSERT INTO kept VALUES (%d)", 2*turn))
		c.consumeUntilCopied()
		former := p.Object().Status.Primary
		p.Create(framework.NewOperation(fmt.Sprintf("turn-%d", turn), "Switchover", p.Reference()))
		p.Eventually(framework.ReadyTimeout, "another server is the primary", func() error {
			if now := p.Object().Status.Primary; now == "" || now == former {
				return fmt.Errorf("it is %q", now)
			}
			return nil
		})
		p.WaitForReplicas(1)
		onPrimary(p, fmt.Sprintf("INSERT INTO kept VALUES (%d)", 2*turn+1))
	}
	c.consumeUntilCopied()
	if want := "0 1 2 3"; strings.Join(c.got, " ") != want {
		t.Errorf("the consumer got %q, want %q", c.got, want)
	}
}

// slotConsumer reads what a slot has, as a subscriber would.
type slotConsumer struct {
	*framework.PostgreSQLInstance
	got []string
}

// consumeUntilCopied reads on until each standby has a copy of the slot. It has one only of a slot that moves.
func (c *slotConsumer) consumeUntilCopied() {
	c.Helper()
	c.Eventually(framework.ReadyTimeout, "the standby has a copy of the slot", func() error {
		rows := onPrimary(c.PostgreSQLInstance,
			"SELECT substr(data, strpos(data, 'n[integer]:') + 11) FROM pg_logical_slot_get_changes('consumer', NULL, NULL) "+
				"WHERE data LIKE 'table public.kept: INSERT%'")
		c.got = append(c.got, strings.Fields(rows)...)
		onPrimary(c.PostgreSQLInstance, "SELECT pg_log_standby_snapshot() IS NULL")
		for _, member := range c.Object().Status.Members {
			if member.Name == c.Object().Status.Primary {
				continue
			}
			copies, err := onMember(c.PostgreSQLInstance, member.Name,
				"SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'consumer' AND synced AND NOT temporary")
			if err != nil || copies != "1" {
				return fmt.Errorf("%s has %q copies: %v", member.Name, copies, err)
			}
		}
		return nil
	})
}

// onMember runs a statement on a member as its superuser.
func onMember(p *framework.PostgreSQLInstance, pod, statement string) (string, error) {
	out, err := framework.Run(p.Ctx, p.Namespace.Name, pod, framework.PostgreSQLComponent, "",
		"/usr/lib/postgresql/"+framework.PostgreSQLVersion+"/bin/psql", "-X", "-A", "-t", "-q", "-h", "/zeroinfra/run", "-U",
		"postgres", "-c", statement)
	return strings.TrimSpace(out), err
}

// onPrimary runs a statement on the primary as its superuser, once it takes writes.
func onPrimary(p *framework.PostgreSQLInstance, statement string) (said string) {
	p.Helper()
	p.Eventually(framework.ReadyTimeout, statement, func() (err error) {
		said, err = onMember(p, p.Object().Status.Primary, statement)
		return err
	})
	return said
}
