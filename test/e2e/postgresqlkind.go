// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// postgresqlComponent is the plugin's name of the component, and of the container that runs the server.
	postgresqlComponent = "postgresql"
	postgresqlVersion   = "17"
)

// pgInstance is one PostgreSQL of a test.
type pgInstance struct {
	*space
	name string
	ways *ways
}

func (p *pgInstance) in(t *testing.T) *pgInstance {
	return &pgInstance{space: p.space.in(t), name: p.name, ways: p.ways}
}

// object returns the PostgreSQL as it is.
func (p *pgInstance) object() *databasev1.PostgreSQL {
	p.Helper()
	obj := &databasev1.PostgreSQL{}
	p.mustGet(p.name, obj)
	return obj
}

// application is what it compiles to.
func (p *pgInstance) application() *application {
	return &application{space: p.space, name: platformv1.ApplicationNameFor("PostgreSQL", p.name)}
}

func (p *pgInstance) reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: databasev1.GroupVersion.String(), Kind: "PostgreSQL", Name: p.name}
}

// tryUpdate changes the spec as "kubectl patch" does.
func (p *pgInstance) tryUpdate(change func(*databasev1.PostgreSQLSpec), options ...client.PatchOption) error {
	obj := &databasev1.PostgreSQL{}
	if err := p.get(p.name, obj); err != nil {
		return err
	}
	before := obj.DeepCopy()
	change(&obj.Spec)
	return world.client.Patch(p.ctx, obj, client.MergeFrom(before), options...)
}

// update is tryUpdate for what has to be accepted. It waits until the instance is ready with that.
func (p *pgInstance) update(change func(*databasev1.PostgreSQLSpec)) {
	p.Helper()
	if err := p.tryUpdate(change); err != nil {
		p.Fatalf("cannot change PostgreSQL %q: %v", p.name, err)
	}
	p.ready()
}

// ready waits until the instance is ready at its present generation. It returns how long that took.
func (p *pgInstance) ready() time.Duration {
	p.Helper()
	return p.eventually(readyIn, fmt.Sprintf("PostgreSQL %q becomes ready", p.name), func() error {
		obj := &databasev1.PostgreSQL{}
		if err := p.get(p.name, obj); err != nil {
			return err
		}
		return readyNow(obj, obj.Status.ObservedGeneration)
	})
}

// following waits until that many replicas follow the primary.
func (p *pgInstance) following(replicas int) {
	p.Helper()
	p.ready()
	p.eventually(readyIn, fmt.Sprintf("%d replicas follow", replicas), func() error {
		if got, want := p.object().Status.Replicas, fmt.Sprintf("%[1]d/%[1]d", replicas); got != want {
			return fmt.Errorf("the status says %s", got)
		}
		return nil
	})
}

// binding is what the Secret for clients has.
func (p *pgInstance) binding() map[string]string {
	p.Helper()
	secret := &corev1.Secret{}
	p.mustGet(p.object().Status.BindingName, secret)
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values
}

// login is who a client is, beside what the binding says.
type login struct {
	user, password, database string
	// readOnly is for a client of the replicas, pooled for one of the pooler.
	readOnly, pooled bool
	// mode is the client's sslmode; that of clients which are told nothing when empty.
	mode string
}

// pool is a client that goes by what the binding has and reaches the instance as its Services lead.
func (p *pgInstance) pool(who login) *pgxpool.Pool {
	p.Helper()
	b := p.binding()
	uri := b["uri"]
	if who.readOnly {
		uri = b["uri-ro"]
	}
	if who.mode != "" {
		ca := filepath.Join(p.TempDir(), "ca.crt")
		if err := os.WriteFile(ca, []byte(b["ca.crt"]), 0o600); err != nil {
			p.Fatal(err)
		}
		uri += "?sslmode=" + who.mode
		if who.mode != "disable" {
			uri += "&sslrootcert=" + ca
		}
	}
	config, err := pgxpool.ParseConfig(uri)
	if err != nil {
		p.Fatal("the binding's uri cannot be parsed")
	}
	config.MaxConns = 2
	c := config.ConnConfig
	c.ConnectTimeout, c.DialFunc = 2*answerIn, p.ways.dialService
	// The cluster's names are for who is in it.
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	if who.pooled {
		port, err := strconv.ParseUint(b["pooler-port"], 10, 16)
		if err != nil {
			p.Fatalf("the binding has a pooler at %s:%s", b["pooler-host"], b["pooler-port"])
		}
		c.Host, c.Port = b["pooler-host"], uint16(port)
	}
	if who.user != "" {
		c.User, c.Password = who.user, who.password
	}
	if who.database != "" {
		c.Database = who.database
	}
	pool, err := pgxpool.NewWithConfig(p.ctx, config)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(pool.Close)
	return pool
}

// asks runs a statement that gives one value, as text.
func asks(ctx context.Context, pool *pgxpool.Pool, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerIn)
	defer cancel()
	var value *string
	err := pool.QueryRow(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(&value)
	if value == nil {
		return "", err
	}
	return *value, err
}

// answers waits until a statement gives what is wanted.
func (p *pgInstance) answers(pool *pgxpool.Pool, want, statement string) {
	p.Helper()
	p.eventually(settleIn, statement+" gives "+want, func() error {
		got, err := asks(p.ctx, pool, statement)
		if err == nil && got != want {
			err = fmt.Errorf("it gives %q", got)
		}
		return err
	})
}

// refuses has the test fail unless the server refuses a statement with a text. A connection that breaks is no word of the server.
func (p *pgInstance) refuses(pool *pgxpool.Pool, text, statement string) {
	p.Helper()
	p.eventually(spreadIn, statement+" is refused", func() error {
		got, err := asks(p.ctx, pool, statement)
		if said := (*pgconn.PgError)(nil); err != nil && !strings.Contains(err.Error(), text) && !errors.As(err, &said) {
			return err
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			p.Errorf("%s gives %q, %v; want a refusal with %q", statement, got, err, text)
		}
		return nil
	})
}

// everywhere is what each member says of itself.
func (p *pgInstance) everywhere(statement string) (map[string]string, error) {
	p.Helper()
	said := map[string]string{}
	for _, m := range p.object().Status.Members {
		out, err := run(p.ctx, p.space.name, m.Name, postgresqlComponent, "", "/usr/lib/postgresql/"+p.object().Spec.Version+"/bin/psql",
			"-X", "-A", "-t", "-q", "-h", "/zeroinfra/run", "-U", "postgres", "-c", statement)
		if err != nil {
			return nil, err
		}
		said[m.Name] = strings.TrimSpace(out)
	}
	return said, nil
}

// wantEverywhere waits until each member says what is wanted.
func (p *pgInstance) wantEverywhere(want, statement string) {
	p.Helper()
	p.eventually(settleIn, statement+" gives "+want+" everywhere", func() error {
		all, err := p.everywhere(statement)
		for member, said := range all {
			if said != want {
				return fmt.Errorf("%s says %q", member, said)
			}
		}
		return err
	})
}

// starts are since when the process of each member runs.
func (p *pgInstance) starts() map[string]string {
	p.Helper()
	var all map[string]string
	p.eventually(settleIn, "each member says since when it runs", func() (err error) {
		if all, err = p.everywhere("SELECT pg_postmaster_start_time()"); err == nil && len(all) != int(p.object().Spec.Replicas)+1 {
			err = fmt.Errorf("the status names %v", slices.Sorted(maps.Keys(all)))
		}
		return err
	})
	return all
}

func (p *pgInstance) uids() map[string]types.UID {
	p.Helper()
	return p.application().uids()
}

// pgWriter writes growing numbers without pause, as a client that tries again with the next number when a write fails.
type pgWriter struct {
	*pgInstance
	pool *pgxpool.Pool
	stop context.CancelFunc
	done chan struct{}
	// acknowledged writes and when that was.
	acknowledged []int
	times        []time.Time
}

// writesAtFirst are acknowledged before whoever starts a writer goes on: there is something to lose.
const writesAtFirst = 20

// startWriter begins to write into the table numbers and returns when the first writes were acknowledged.
func (p *pgInstance) startWriter(pool *pgxpool.Pool) *pgWriter {
	p.Helper()
	ctx, stop := context.WithCancel(p.ctx)
	w := &pgWriter{pgInstance: p, pool: pool, stop: stop, done: make(chan struct{})}
	going := make(chan struct{})
	go func() {
		defer close(w.done)
		for n := 1; ctx.Err() == nil; n++ {
			if err := w.write(ctx, n); err != nil {
				// An upgrade takes minutes: who has nobody to talk to does not ask thousands of times a second.
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
				continue
			}
			w.acknowledged, w.times = append(w.acknowledged, n), append(w.times, time.Now())
			if len(w.acknowledged) == writesAtFirst {
				close(going)
			}
		}
	}()
	select {
	case <-going:
	case <-time.After(settleIn):
		p.Fatalf("fewer than %d writes were acknowledged", writesAtFirst)
	}
	return w
}

func (w *pgWriter) write(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	_, err := w.pool.Exec(ctx, "INSERT INTO numbers VALUES ($1)", pgx.QueryExecModeExec, n)
	return err
}

// judge ends the writer and reads back what was acknowledged.
func (w *pgWriter) judge(name string, limit time.Duration) {
	w.Helper()
	w.stop()
	<-w.done
	have := map[int]bool{}
	w.eventually(settleIn, "the primary tells what it has", func() error {
		rows, err := w.pool.Query(w.ctx, "SELECT n FROM numbers", pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
		for _, n := range numbers {
			have[n] = true
		}
		return err
	})
	v := verdict{acknowledged: len(w.acknowledged), gap: longestGap(w.times)}
	for _, n := range w.acknowledged {
		if !have[n] {
			v.lost++
		}
	}
	v.hold(w.T, name, limit)
}

// notReadyFor waits until the object says what it waits for or what is wrong.
func (p *pgInstance) notReadyFor(reason string, texts ...string) {
	p.Helper()
	p.eventually(readyIn, fmt.Sprintf("PostgreSQL %q says %s", p.name, reason), func() error {
		obj := p.object()
		for _, c := range obj.Status.Conditions {
			if c.Type != platformv1.ReadyCondition || c.Reason != reason || obj.Status.ObservedGeneration != obj.Generation {
				continue
			}
			for _, text := range texts {
				if !strings.Contains(c.Message, text) {
					return fmt.Errorf("it says nothing of %q: %s", text, c.Message)
				}
			}
			return nil
		}
		return errors.New(describe(obj.Status.Conditions))
	})
}
