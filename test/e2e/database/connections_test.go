// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// crowdedFor is how long clients have all connections: several rounds of the probe and of its deadlines.
	crowdedFor = 45 * time.Second
	// reconnectEvery is how soon a client that was turned away tries again.
	reconnectEvery = 100 * time.Millisecond
)

// errTurnedAway is for a client that the server has no connection for.
var errTurnedAway = errors.New("the server has no connection left")

// crowd is more clients than a server has connections for. Each one connects again as soon as it is turned away.
type crowd struct {
	stop               func()
	connected, refused atomic.Int64
}

// gather has that many clients connect. hold connects, tells that it has, and returns when the connection is lost.
func gather(s *framework.Namespace, clients int, hold func(ctx context.Context, connected func()) error) *crowd {
	ctx, cancel := context.WithCancel(s.Ctx)
	var busy sync.WaitGroup
	c := &crowd{}
	c.stop = func() {
		cancel()
		busy.Wait()
	}
	s.Cleanup(c.stop)
	for range clients {
		busy.Go(func() {
			for ctx.Err() == nil {
				if errors.Is(hold(ctx, func() { c.connected.Add(1) }), errTurnedAway) {
					c.refused.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(reconnectEvery):
				}
			}
		})
	}
	return c
}

// untouched has a time of crowding pass in which nothing is restarted and nobody else takes over.
func (c *crowd) untouched(s *framework.Namespace, now func() string) {
	s.Helper()
	s.Eventually(framework.SettleTimeout, "clients are turned away", func() error {
		if c.connected.Load() == 0 || c.refused.Load() == 0 {
			return fmt.Errorf("%d have connected, and %d were turned away", c.connected.Load(), c.refused.Load())
		}
		return nil
	})
	before := now()
	s.Throughout(crowdedFor, "nothing is restarted, and nobody takes over", func() error {
		if after := now(); after != before {
			return fmt.Errorf("it was %s, and is %s", before, after)
		}
		return nil
	})
	s.Logf("%d clients connected and %d were turned away; all the time: %s", c.connected.Load(), c.refused.Load(), before)
}

// footprint tells who is primary and which processes of which pods run.
func footprint(a *framework.Application, primary string) string {
	said := []string{"primary " + primary}
	for _, pod := range a.Pods() {
		restarts := int32(0)
		for _, container := range pod.Status.ContainerStatuses {
			restarts += container.RestartCount
		}
		said = append(said, fmt.Sprintf("%s %s with %d restarts", pod.Name, pod.UID, restarts))
	}
	return strings.Join(said, ", ")
}

// TestRedisOutOfConnections has 60 clients take the 40 connections of the primary, and come again all the time.
func TestRedisOutOfConnections(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "redisclients")
	i := s.CreateRedis("db", framework.WithReplicas(1), func(spec *databasev1.RedisSpec) {
		spec.Parameters = platformv1.Parameters{"maxclients": "40"}
	})
	i.WaitForReplicas(1)
	a, outside := i.Account(), s.NewExternalClient()
	c := gather(s, 60, func(ctx context.Context, connected func()) error {
		conn, err := outside.Dial(ctx, "tcp", net.JoinHostPort(a.Host, a.Port))
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		defer conn.Close()
		if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
			return errTurnedAway
		}
		answers := bufio.NewScanner(conn)
		if !answers.Scan() || strings.Contains(answers.Text(), "max number of clients") {
			return errTurnedAway
		}
		connected()
		for answers.Scan() {
		}
		return answers.Err()
	})
	application := &framework.Application{Namespace: s, Name: i.Application()}
	c.untouched(s, func() string { return footprint(application, i.Object().Status.Primary) })
	s.Eventually(framework.SettleTimeout, "a condition says that clients have all connections", func() error {
		return turnsClientsAway(application.Object().Status.Conditions)
	})
	c.stop()
	s.Eventually(framework.SettleTimeout, "the condition goes", func() error {
		if err := turnsClientsAway(application.Object().Status.Conditions); err == nil {
			return errors.New("it is still there")
		}
		return nil
	})
	i.WaitForReplicas(1)
}

// TestPostgreSQLOutOfConnections has 40 clients take the 20 connections of the primary, and come again all the time.
func TestPostgreSQLOutOfConnections(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgclients")
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version:        framework.PostgreSQLVersion,
			Storage:        platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			Parameters:     platformv1.Parameters{"max_connections": "20", "max_wal_size": "64MB", "min_wal_size": "32MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Replicas: 1,
	}})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.WaitForReplicas(1)
	config, err := pgx.ParseConfig(p.Binding()["uri"])
	if err != nil {
		t.Fatal("the binding's uri cannot be parsed")
	}
	config.DialFunc = s.NewExternalClient().Dial
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c := gather(s, 40, func(ctx context.Context, connected func()) error {
		conn, err := pgx.ConnectConfig(ctx, config)
		var said *pgconn.PgError
		if errors.As(err, &said) && said.Code == "53300" { // too_many_connections
			return errTurnedAway
		}
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		connected()
		_, err = conn.WaitForNotification(ctx)
		return err
	})
	c.untouched(s, func() string { return footprint(p.Application(), p.Object().Status.Primary) })
	// The engine's own way in is reserved: a change is made all the same.
	p.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Parameters["work_mem"] = "5MB" })
	if said := onPrimary(p, "SHOW work_mem"); said != "5MB" {
		t.Errorf("work_mem is %q", said)
	}
	c.stop()
	p.WaitForReplicas(1)
}

// turnsClientsAway is nil when the conditions say that clients have all connections.
func turnsClientsAway(conditions []metav1.Condition) error {
	if c := meta.FindStatusCondition(conditions, platformv1.ConnectionsAvailableCondition); c == nil ||
		c.Reason != platformv1.ReasonTooManyClients {
		return fmt.Errorf("the conditions are %s", framework.Describe(conditions))
	}
	return nil
}
