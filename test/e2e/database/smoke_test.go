// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/test/e2e/framework"
)

// Names of what the samples of the database operator are tried with.
const (
	// restartedSample is the Redis that the sample of a restart names.
	restartedSample = "sample"
	// replicatedSample is the Redis with replicas.
	replicatedSample = "sessions"
	// electedSample is the Redis whose primary Sentinels elect.
	electedSample = "directory"
)

// TestSmokeDatabase uses every sample of the database operator, restarts one, kills the primary of one under writes,
// and deletes them all.
func TestSmokeDatabase(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "smoke-database")
	all := s.ApplySamplesOf(framework.OperatorName)
	for _, name := range all.Names("Redis") {
		i := &framework.Instance{Namespace: s, Name: name}
		i.WaitReady()
		i.MustDo("SET", "greeting", "hello")
		expectGreeting(i, "hello")
	}
	for _, name := range all.Names("RedisCluster") {
		r := &redisCluster{Namespace: s, name: name, ways: s.NewPortForwards()}
		c := r.client()
		s.ExpectReadBack(func(key, value string) error { return c.Set(s.Ctx, key, value, 0).Err() },
			func(key string) (string, error) { return c.Get(s.Ctx, key).Result() })
	}
	for _, name := range all.Names("PostgreSQL") {
		expectRowReadBack(&framework.PostgreSQLInstance{Namespace: s, Name: name, PortForwards: s.NewPortForwards()})
	}
	for _, name := range all.Names("MySQL") {
		m := &mysqlInstance{Namespace: s, name: name, ways: s.NewPortForwards()}
		m.waitReady()
		expectGreetingByBinding(m)
	}
	for _, name := range all.Names("MySQLCluster") {
		g := &mysqlGroup{&mysqlInstance{Namespace: s, name: name, ways: s.NewPortForwards(), kind: "MySQLCluster"}}
		expectGreetingByBinding(g.mysqlInstance)
	}
	sentinels := &elected{Instance: &framework.Instance{Namespace: s, Name: electedSample}, ways: s.NewPortForwards()}
	c := sentinels.client()
	defer c.Close()
	s.ExpectReadBack(func(key, value string) error { return c.Set(s.Ctx, key, value, 0).Err() },
		func(key string) (string, error) { return c.Get(s.Ctx, key).Result() })

	t.Log("an Operation restarts a server, which keeps what it has")
	restarted := &framework.Instance{Namespace: s, Name: restartedSample}
	before := restarted.Footprint()
	sample := filepath.Join(all.Folder, "operation_restart.yaml")
	s.ExpectOperationSucceeded(s.Kubectl("create", "-f", sample, "-o", "jsonpath={.metadata.name}"))
	restarted.WaitReady()
	expectGreeting(restarted, "hello")
	if after := restarted.Footprint(); after.Run == before.Run {
		t.Errorf("redis-server was not restarted: its run is still %s", after.Run)
	}

	t.Log("a primary is killed under writes")
	expectNoLoss(&framework.Instance{Namespace: s, Name: replicatedSample})

	t.Log("all is deleted")
	all.DeleteAll()
}

// expectGreeting waits until the greeting is read through the Service.
func expectGreeting(i *framework.Instance, want string) {
	i.Helper()
	if got := i.MustDo("GET", "greeting"); got != want {
		i.Errorf("Redis %q has %q, want %q", i.Name, got, want)
	}
}

// expectGreetingByBinding writes a row with what the Secret for clients has alone, and reads it back.
func expectGreetingByBinding(m *mysqlInstance) {
	m.Helper()
	db := m.bound()
	m.exec(db, "CREATE TABLE greetings (greeting VARCHAR(10) PRIMARY KEY)", "INSERT INTO greetings VALUES ('hello')")
	m.waitForAnswer(db, "hello", "SELECT greeting FROM greetings")
}

// expectRowReadBack writes a row and reads it back.
func expectRowReadBack(p *framework.PostgreSQLInstance) {
	p.Helper()
	pool := p.Pool(framework.Login{Bound: true})
	p.ExpectReadBack(func(_, value string) error {
		_, err := pool.Exec(p.Ctx, "CREATE TABLE IF NOT EXISTS greetings AS SELECT '"+value+"' AS greeting")
		return err
	}, func(string) (string, error) { return framework.Asks(p.Ctx, pool, "SELECT greeting FROM greetings") })
}

// expectNoLoss deletes the pod of the primary while a client writes: no write is lost that was acknowledged with a
// replica.
func expectNoLoss(i *framework.Instance) {
	i.Helper()
	primary := i.Object().Status.Primary
	before := &corev1.Pod{}
	i.MustGet(primary, before)
	w := writesWith(i.Namespace, bindingClient(i, i.NewPortForwards()), 1)
	i.Delete(before, framework.GraceZero)
	i.Eventually(framework.ReadyTimeout, "another pod "+primary+" is ready", func() error { return i.PodReplaced(before) })
	w.judge().ExpectWithin(i.T, "primary killed", framework.AnyGap)
	i.WaitReady()
}

// bindingClient is a client that goes by the binding alone, and connects to where the Service leads then.
func bindingClient(i *framework.Instance, w *framework.PortForwards) *redis.Client {
	i.Helper()
	a := i.Account()
	c := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(a.Host, a.Port), Username: a.Username, Password: a.Password,
		Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 2,
		DialTimeout: framework.AnswerTimeout, ReadTimeout: framework.AnswerTimeout,
		Dialer: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			// While it leads nowhere, nobody asks as fast as that is answered.
			_, err = framework.Poll(ctx, framework.AnswerTimeout, "the Service leads somewhere", func() (failed error) {
				conn, failed = w.DialService(ctx, network, address)
				return failed
			})
			return conn, err
		},
	})
	i.Cleanup(func() { _ = c.Close() })
	return c
}
