// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
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
	s := newSpace(t, "smoke-database")
	all := s.applySamplesOf(operatorName)
	for _, name := range all.names("Redis") {
		i := &instance{space: s, name: name}
		i.ready()
		i.must("SET", "greeting", "hello")
		i.keeps("hello")
	}
	for _, name := range all.names("RedisCluster") {
		r := &redisCluster{space: s, name: name, ways: s.ways()}
		c := r.client()
		s.remembers(func(key, value string) error { return c.Set(s.ctx, key, value, 0).Err() },
			func(key string) (string, error) { return c.Get(s.ctx, key).Result() })
	}
	for _, name := range all.names("PostgreSQL") {
		p := &pgInstance{space: s, name: name, ways: s.ways()}
		p.remembersRow()
	}
	c := (&elected{instance: &instance{space: s, name: electedSample}, ways: s.ways()}).client()
	defer c.Close()
	s.remembers(func(key, value string) error { return c.Set(s.ctx, key, value, 0).Err() },
		func(key string) (string, error) { return c.Get(s.ctx, key).Result() })

	t.Log("an Operation restarts a server, which keeps what it has")
	restarted := &instance{space: s, name: restartedSample}
	before := restarted.footprint()
	sample := filepath.Join(all.folder, "operation_restart.yaml")
	s.succeeded(s.kubectl("create", "-f", sample, "-o", "jsonpath={.metadata.name}"))
	restarted.ready()
	restarted.keeps("hello")
	if after := restarted.footprint(); after.run == before.run {
		t.Errorf("redis-server was not restarted: its run is still %s", after.run)
	}

	t.Log("a primary is killed under writes")
	(&instance{space: s, name: replicatedSample}).losesNothing()

	t.Log("all is deleted")
	all.delete()
}

// keeps waits until the greeting is read through the Service.
func (i *instance) keeps(want string) {
	i.Helper()
	if got := i.must("GET", "greeting"); got != want {
		i.Errorf("Redis %q has %q, want %q", i.name, got, want)
	}
}

// remembers writes a value with a client and reads it back.
func (s *space) remembers(write func(key, value string) error, read func(key string) (string, error)) {
	s.Helper()
	const key, want = "greeting", "hello"
	s.eventually(settleIn, "a value is written", func() error { return write(key, want) })
	var got string
	s.eventually(settleIn, "a value is read", func() (err error) {
		got, err = read(key)
		return err
	})
	if got != want {
		s.Errorf("%s is %q, want %q", key, got, want)
	}
}

// remembersRow writes a row and reads it back.
func (p *pgInstance) remembersRow() {
	p.Helper()
	pool := p.pool(login{})
	p.remembers(func(_, value string) error {
		_, err := pool.Exec(p.ctx, "CREATE TABLE IF NOT EXISTS greetings AS SELECT '"+value+"' AS greeting")
		return err
	}, func(string) (string, error) { return asks(p.ctx, pool, "SELECT greeting FROM greetings") })
}

// losesNothing deletes the pod of the primary while a client writes: no write is lost that was acknowledged with a
// replica.
func (i *instance) losesNothing() {
	i.Helper()
	primary := i.object().Status.Primary
	before := &corev1.Pod{}
	i.mustGet(primary, before)
	w := i.writesWith(i.boundClient(i.ways()), 1)
	i.delete(before, graceZero)
	i.eventually(readyIn, "another pod "+primary+" is ready", func() error { return i.replaced(before) })
	w.judge().hold(i.T, "primary killed", anyGap)
	i.ready()
}

// TestSmokeStorage uses the samples of the storage operator, restarts the server, and deletes them.
func TestSmokeStorage(t *testing.T) {
	t.Parallel()
	s := installed(t, storageOperator)
	all := s.applySamplesOf(storageOperator)
	all.names("BackupPolicy")
	for _, name := range all.names("ObjectStorage") {
		o := &objectStorage{space: s, name: name, ways: s.ways()}
		bucket := o.object().Spec.Buckets[0].Name
		root := o.root(o.pod("main", 0))
		o.puts(root, bucket, "greeting", "hello")
		o.wantObject(root, bucket, "greeting", "hello")
		s.restarts(platformv1.TargetReference{APIVersion: storagev1.GroupVersion.String(), Kind: "ObjectStorage", Name: name})
		o.ready()
		o.wantObject(root, bucket, "greeting", "hello")
	}
	all.delete()
	s.uninstalls(storageOperator)
}

// TestSmokeCommon uses the samples of the common operator, a web server, and restarts that.
func TestSmokeCommon(t *testing.T) {
	t.Parallel()
	s := installed(t, commonOperator)
	all := s.applySamplesOf(commonOperator)
	for _, name := range all.names("Application") {
		a := &application{space: s, name: name}
		a.serves()
		s.restarts(coreReference("Application", name))
		a.ready()
		a.serves()
	}
	all.delete()
	s.uninstalls(commonOperator)
}

// serves waits until a web server answers a request that goes where its Service leads.
func (a *application) serves() {
	a.Helper()
	through := &http.Transport{DialContext: a.ways().dialService, DisableKeepAlives: true}
	c := &http.Client{Transport: through, Timeout: answerIn}
	a.eventually(settleIn, "the web server answers", func() error {
		answer, err := c.Get("http://" + net.JoinHostPort(a.name+"."+a.space.name, "8080") + "/")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

// Those that have no kinds and no plugins yet: their samples are applied and deleted.
func TestSmokeMessage(t *testing.T) { smokeBare(t, otherOperator) }
func TestSmokeModel(t *testing.T)   { smokeBare(t, "model-operator") }
func TestSmokeBatch(t *testing.T)   { smokeBare(t, "batch-operator") }

func smokeBare(t *testing.T, operator string) {
	t.Helper()
	t.Parallel()
	s := installed(t, operator)
	s.applySamplesOf(operator).delete()
	s.uninstalls(operator)
}
