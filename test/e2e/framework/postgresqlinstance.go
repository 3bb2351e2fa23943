// SPDX-License-Identifier: Apache-2.0

package framework

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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// PostgreSQLComponent is the plugin's name of the component, and of the container that runs the server.
	PostgreSQLComponent = "postgresql"
	// PostgreSQLVersion is the version that instances ask for where nothing else is said.
	PostgreSQLVersion = "17"
	// superuser of each server, and the database of its own.
	superuser = "postgres"
)

// PostgreSQLInstance is one PostgreSQL of a test.
type PostgreSQLInstance struct {
	*Namespace
	Name         string
	PortForwards *PortForwards
}

// In returns the same instance for a subtest.
func (p *PostgreSQLInstance) In(t *testing.T) *PostgreSQLInstance {
	return &PostgreSQLInstance{Namespace: p.Namespace.In(t), Name: p.Name, PortForwards: p.PortForwards}
}

// Object returns the PostgreSQL as it is.
func (p *PostgreSQLInstance) Object() *databasev1.PostgreSQL {
	p.Helper()
	obj := &databasev1.PostgreSQL{}
	p.MustGet(p.Name, obj)
	return obj
}

// Application is what it compiles to.
func (p *PostgreSQLInstance) Application() *Application {
	return &Application{Namespace: p.Namespace, Name: platformv1.ApplicationNameFor("PostgreSQL", p.Name)}
}

// Reference names the instance as the target of an Operation.
func (p *PostgreSQLInstance) Reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: databasev1.GroupVersion.String(), Kind: "PostgreSQL", Name: p.Name}
}

// TryUpdate changes the spec as "kubectl patch" does.
func (p *PostgreSQLInstance) TryUpdate(change func(*databasev1.PostgreSQLSpec), options ...client.PatchOption) error {
	obj := &databasev1.PostgreSQL{}
	if err := p.Get(p.Name, obj); err != nil {
		return err
	}
	before := obj.DeepCopy()
	change(&obj.Spec)
	return Cluster.Client.Patch(p.Ctx, obj, client.MergeFrom(before), options...)
}

// Update is TryUpdate for what has to be accepted. It waits until the instance is ready with that.
func (p *PostgreSQLInstance) Update(change func(*databasev1.PostgreSQLSpec)) {
	p.Helper()
	if err := p.TryUpdate(change); err != nil {
		p.Fatalf("cannot change PostgreSQL %q: %v", p.Name, err)
	}
	p.WaitReady()
}

// WaitReady waits until the instance is ready at its present generation. It returns how long that took.
func (p *PostgreSQLInstance) WaitReady() time.Duration {
	p.Helper()
	return p.Eventually(ReadyTimeout, fmt.Sprintf("PostgreSQL %q becomes ready", p.Name), func() error {
		obj := &databasev1.PostgreSQL{}
		if err := p.Get(p.Name, obj); err != nil {
			return err
		}
		return ReadyNow(obj, obj.Status.ObservedGeneration)
	})
}

// WaitForReplicas waits until that many replicas follow the primary.
func (p *PostgreSQLInstance) WaitForReplicas(replicas int) {
	p.Helper()
	p.WaitReady()
	p.Eventually(ReadyTimeout, fmt.Sprintf("%d replicas follow", replicas), func() error {
		if got, want := p.Object().Status.Replicas, fmt.Sprintf("%[1]d/%[1]d", replicas); got != want {
			return fmt.Errorf("the status says %s", got)
		}
		return nil
	})
}

// Binding is what the Secret for clients has.
func (p *PostgreSQLInstance) Binding() map[string]string {
	p.Helper()
	return p.BindingData(p.Object().Status.BindingName)
}

// SuperuserPassword is in a Secret that clients have no need of.
func (p *PostgreSQLInstance) SuperuserPassword() string {
	p.Helper()
	return p.Application().Password("superuser")
}

// Login is who a client is: the superuser, unless it is said.
type Login struct {
	User, Password, Database string
	// Bound is for a client that goes by the binding alone.
	Bound bool
	// ReadOnly is for a client of the replicas, Pooled for one of the pooler.
	ReadOnly, Pooled bool
	// Mode is the client's sslmode; that of clients which are told nothing when empty.
	Mode string
}

// Pool is a client that finds the instance by what the binding has and reaches it as its Services lead.
func (p *PostgreSQLInstance) Pool(who Login) *pgxpool.Pool {
	p.Helper()
	b := p.Binding()
	uri := b["uri"]
	if who.ReadOnly {
		uri = b["uri-ro"]
	}
	if who.Mode != "" {
		ca := filepath.Join(p.TempDir(), "ca.crt")
		if err := os.WriteFile(ca, []byte(b["ca.crt"]), 0o600); err != nil {
			p.Fatal(err)
		}
		uri += "?sslmode=" + who.Mode
		if who.Mode != "disable" {
			uri += "&sslrootcert=" + ca
		}
	}
	config, err := pgxpool.ParseConfig(uri)
	if err != nil {
		p.Fatal("the binding's uri cannot be parsed")
	}
	config.MaxConns = 2
	c := config.ConnConfig
	c.ConnectTimeout, c.DialFunc = 2*AnswerTimeout, p.PortForwards.DialService
	// The cluster's names are for who is in it.
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	if who.Pooled {
		port, err := strconv.ParseUint(b["pooler-port"], 10, 16)
		if err != nil {
			p.Fatalf("the binding has a pooler at %s:%s", b["pooler-host"], b["pooler-port"])
		}
		c.Host, c.Port = b["pooler-host"], uint16(port)
	}
	switch {
	case who.Bound:
	case who.User != "":
		c.User, c.Password, c.Database = who.User, who.Password, superuser
	default:
		c.User, c.Password, c.Database = superuser, p.SuperuserPassword(), superuser
	}
	if who.Database != "" {
		c.Database = who.Database
	}
	pool, err := pgxpool.NewWithConfig(p.Ctx, config)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(pool.Close)
	return pool
}

// Asks runs a statement that gives one value, as text.
func Asks(ctx context.Context, pool *pgxpool.Pool, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*AnswerTimeout)
	defer cancel()
	var value *string
	err := pool.QueryRow(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(&value)
	if value == nil {
		return "", err
	}
	return *value, err
}

// WaitForAnswer waits until a statement gives what is wanted.
func (p *PostgreSQLInstance) WaitForAnswer(pool *pgxpool.Pool, want, statement string) {
	p.Helper()
	p.Eventually(SettleTimeout, statement+" gives "+want, func() error {
		got, err := Asks(p.Ctx, pool, statement)
		if err == nil && got != want {
			err = fmt.Errorf("it gives %q", got)
		}
		return err
	})
}

// ExpectStatementRefused has the test fail unless the server refuses a statement with a text. A connection that breaks
// is no word of the server.
func (p *PostgreSQLInstance) ExpectStatementRefused(pool *pgxpool.Pool, text, statement string) {
	p.Helper()
	p.Eventually(EndpointTimeout, statement+" is refused", func() error {
		got, err := Asks(p.Ctx, pool, statement)
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
func (p *PostgreSQLInstance) everywhere(statement string) (map[string]string, error) {
	p.Helper()
	said := map[string]string{}
	for _, m := range p.Object().Status.Members {
		out, err := Run(p.Ctx, p.Namespace.Name, m.Name, PostgreSQLComponent, "", "/usr/lib/postgresql/"+
			p.Object().Spec.Version+"/bin/psql",
			"-X", "-A", "-t", "-q", "-h", "/zeroinfra/run", "-U", "postgres", "-c", statement)
		if err != nil {
			return nil, err
		}
		said[m.Name] = strings.TrimSpace(out)
	}
	return said, nil
}

// WaitForAnswerEverywhere waits until each member says what is wanted.
func (p *PostgreSQLInstance) WaitForAnswerEverywhere(want, statement string) {
	p.Helper()
	p.Eventually(SettleTimeout, statement+" gives "+want+" everywhere", func() error {
		all, err := p.everywhere(statement)
		for member, said := range all {
			if said != want {
				return fmt.Errorf("%s says %q", member, said)
			}
		}
		return err
	})
}

// ProcessStarts are since when the process of each member runs.
func (p *PostgreSQLInstance) ProcessStarts() map[string]string {
	p.Helper()
	var all map[string]string
	p.Eventually(SettleTimeout, "each member says since when it runs", func() (err error) {
		if all, err = p.everywhere("SELECT pg_postmaster_start_time()"); err == nil &&
			len(all) != int(p.Object().Spec.Replicas)+1 {
			err = fmt.Errorf("the status names %v", slices.Sorted(maps.Keys(all)))
		}
		return err
	})
	return all
}

// PodUIDs returns the UIDs of the pods by name.
func (p *PostgreSQLInstance) PodUIDs() map[string]types.UID {
	p.Helper()
	return p.Application().UIDs()
}

// PostgreSQLWriter writes growing numbers without pause, as a client that tries again with the next number when a write
// fails.
type PostgreSQLWriter struct {
	*PostgreSQLInstance
	pool *pgxpool.Pool
	stop context.CancelFunc
	done chan struct{}
	// acknowledged writes and when that was.
	acknowledged []int
	times        []time.Time
}

// writesAtFirst are acknowledged before whoever starts a writer goes on: there is something to lose.
const writesAtFirst = 20

// StartWriter begins to write into the table numbers and returns when the first writes were acknowledged.
func (p *PostgreSQLInstance) StartWriter(pool *pgxpool.Pool) *PostgreSQLWriter {
	p.Helper()
	ctx, stop := context.WithCancel(p.Ctx)
	w := &PostgreSQLWriter{PostgreSQLInstance: p, pool: pool, stop: stop, done: make(chan struct{})}
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
	case <-time.After(SettleTimeout):
		p.Fatalf("fewer than %d writes were acknowledged", writesAtFirst)
	}
	return w
}

func (w *PostgreSQLWriter) write(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	_, err := w.pool.Exec(ctx, "INSERT INTO numbers VALUES ($1)", pgx.QueryExecModeExec, n)
	return err
}

// StopAndVerify ends the writer and reads back what was acknowledged.
func (w *PostgreSQLWriter) StopAndVerify(name string, limit time.Duration) {
	w.Helper()
	w.stop()
	<-w.done
	have := map[int]bool{}
	w.Eventually(SettleTimeout, "the primary tells what it has", func() error {
		rows, err := w.pool.Query(w.Ctx, "SELECT n FROM numbers", pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
		for _, n := range numbers {
			have[n] = true
		}
		return err
	})
	v := Verdict{Acknowledged: len(w.acknowledged), Gap: LongestGap(w.times)}
	for _, n := range w.acknowledged {
		if !have[n] {
			v.Lost++
		}
	}
	v.ExpectWithin(w.T, name, limit)
}

// ExpectNotReady waits until the object says what it waits for or what is wrong.
func (p *PostgreSQLInstance) ExpectNotReady(reason string, texts ...string) {
	p.Helper()
	p.Eventually(ReadyTimeout, fmt.Sprintf("PostgreSQL %q says %s", p.Name, reason), func() error {
		obj := p.Object()
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
		return errors.New(Describe(obj.Status.Conditions))
	})
}

// Exec runs statements that have to succeed.
func (p *PostgreSQLInstance) Exec(pool *pgxpool.Pool, statements ...string) {
	p.Helper()
	for _, statement := range statements {
		p.Eventually(EndpointTimeout, statement, func() error {
			_, err := pool.Exec(p.Ctx, statement)
			// Who got no connection has told the server nothing.
			if unmade := (*pgconn.ConnectError)(nil); err != nil && !errors.As(err, &unmade) && !pgconn.SafeToRetry(err) {
				p.Fatalf("%s: %v", statement, err)
			}
			return err
		})
	}
}
