// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	poolerComponent   = "pooler"
	poolerPort        = 6432
	poolerMetricsPort = 9127
	// poolerStall is the stall of a pooler's clients at which a test fails.
	poolerStall = framework.FailoverGapLimit
)

// pooled is PostgreSQL with a pooler before it.
type pooled struct {
	*framework.Replicated
	server *framework.PostgreSQLApplication
}

// writers write through a pool of the real client library, of which they know nothing but its address, until they are
// told to end.
type writers struct {
	pool *pgxpool.Pool
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	written []time.Time
	errs    []error
}

// write begins to write numbers with a pool of several sessions through a pod of the pooler.
func (p *pooled) write(pod string) *writers {
	p.Helper()
	host, port, err := net.SplitHostPort(p.PortForward(p.Namespace.Name, pod, poolerPort))
	if err != nil {
		p.Fatal(err)
	}
	ctx, stop := context.WithCancel(p.Ctx)
	pool, err := pgxpool.New(ctx, fmt.Sprintf(
		"host=%s port=%s user=seller password=apple dbname=postgres sslmode=disable pool_max_conns=8 pool_min_conns=8", host,
		port))
	if err != nil {
		p.Fatal(err)
	}
	w := &writers{pool: pool, stop: stop}
	for range 8 {
		w.done.Go(func() {
			for ctx.Err() == nil {
				// Two statements in a transaction, as applications have them; the library prepares both.
				err := pgx.BeginFunc(context.WithoutCancel(ctx), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(context.WithoutCancel(ctx), "INSERT INTO through (at) VALUES ($1)", time.Now()); err != nil {
						return err
					}
					var n int
					return tx.QueryRow(context.WithoutCancel(ctx), "SELECT count(*) FROM through WHERE at > $1",
						time.Now().Add(-time.Second)).Scan(&n)
				})
				w.note(err)
			}
		})
	}
	p.Cleanup(func() { w.stop(); w.done.Wait(); pool.Close() })
	return w
}

func (w *writers) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.errs = append(w.errs, err)
		return
	}
	w.written = append(w.written, time.Now())
}

// count is how many transactions were committed so far.
func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.written)
}

// end ends the writers, and returns how many transactions were committed, the longest time without one, and what they
// saw of errors.
func (w *writers) end() (count int, gap time.Duration, errs []error) {
	w.stop()
	w.done.Wait()
	w.pool.Close()
	return len(w.written), framework.LongestGap(w.written), w.errs
}

// through has something be done under load through every pod of the pooler: clients see a stall, and no error, and
// nothing that they were told of is lost.
func (p *pooled) through(what string, do func()) {
	p.Helper()
	p.server.SQL("postgres", "TRUNCATE through")
	var all []*writers
	for n := range 2 {
		all = append(all, p.write(fmt.Sprintf("%s-%s-main-%d", p.Name, poolerComponent, n)))
	}
	for _, w := range all {
		p.Eventually(framework.SettleTimeout, "clients write", func() error {
			if n := w.count(); n < 100 {
				return fmt.Errorf("%d transactions", n)
			}
			return nil
		})
	}
	do()
	before := all[0].count()
	p.Eventually(framework.SettleTimeout, "clients go on", func() error {
		if n := all[0].count() - before; n < 100 {
			return fmt.Errorf("%d transactions more", n)
		}
		return nil
	})
	committed := 0
	for n, w := range all {
		count, gap, errs := w.end()
		committed += count
		p.Logf("%s: %d transactions through pooler %d, the longest stall took %s, %d errors", what, count, n,
			framework.FormatSeconds(gap), len(errs))
		if len(errs) > 0 {
			p.Errorf("%s: clients of pooler %d saw %d errors, such as %v", what, n, len(errs), errs[0])
		}
		if gap > poolerStall {
			p.Errorf("%s: clients of pooler %d waited for %s", what, n, framework.FormatSeconds(gap))
		}
	}
	p.server.WaitForAnswer(fmt.Sprint(committed), "SELECT count(*) FROM through")
}

// handOver has any other pod take over as planned.
func (p *pooled) handOver() {
	p.Helper()
	from, _ := p.WaitForPrimary()
	p.Query("Switchover", platformv1.Parameters{"component": framework.PostgreSQLComponent})
	p.WaitForPrimaryChange(from, framework.SettleTimeout)
	p.WaitForPrimary()
}

// TestPooler proves that clients of the pooler, pgbench among them, wait, and see no error, while another pod becomes
// the primary, whoever asked for that; and that what the pooler is told is in force without a restart.
func TestPooler(t *testing.T) {
	s := framework.NewNamespace(t, "pgpooler")
	r := s.CreateReplicatedPostgreSQL("db")
	r.Update(func(spec *platformv1.ApplicationSpec) {
		spec.Components = append(spec.Components,
			platformv1.ApplicationComponent{Name: poolerComponent, Monitoring: &platformv1.Monitoring{Enabled: true}})
	})
	r.WaitReady()
	r.WaitForPrimary()
	p := &pooled{r, &framework.PostgreSQLApplication{Application: r.Application, Client: framework.PostgreSQLClient}}
	binding := p.server.Binding()
	if binding["pooler-host"] == "" || binding["pooler-port"] != fmt.Sprint(poolerPort) {
		t.Fatalf("the binding says %q and %q", binding["pooler-host"], binding["pooler-port"])
	}
	s.CreateSecret("seller", "password", "apple")
	s.Create(entityOf(p.server, "role", "seller", "seller", nil,
		&platformv1.SecretKeyReference{Name: "seller", Key: "password"}))
	areReady(p.server, "seller")
	p.server.SQL("postgres", "CREATE TABLE through (at timestamptz NOT NULL); GRANT ALL ON through TO seller")
	if out := s.MustRunClientCommand(func() (string, error) {
		return framework.Run(s.Ctx, s.Name, framework.PostgreSQLClient, framework.PostgreSQLClient, "", "env",
			"PGPASSWORD=apple", "/usr/lib/postgresql/"+framework.PostgreSQLVersion+"/bin/psql", "-XAt", "-h",
			binding["pooler-host"],
			"-p", binding["pooler-port"], "-U", "seller", "-d", "postgres", "-c", "SELECT current_user")
	}); strings.TrimSpace(out) != "seller" {
		t.Fatalf("through the Service it says %q", out)
	}

	end := p.bench()
	for range 3 {
		p.through("switchover", p.handOver)
	}
	end()
	// Each server is started anew, the primary last, which hands over before.
	p.through("rollout", func() {
		r.Update(func(spec *platformv1.ApplicationSpec) { spec.Components[0].Parameters["max_connections"] = "41" })
		r.WaitReady()
		r.WaitForPrimary()
	})
	p.server.WaitForAnswer("41", "SHOW max_connections")

	before := p.ProcessStarts()
	p.through("reload", func() {
		r.Update(func(spec *platformv1.ApplicationSpec) {
			spec.Components[1].Parameters = platformv1.Parameters{"default_pool_size": "7"}
		})
		r.WaitReady()
		pod := &corev1.Pod{}
		s.MustGet(r.Name+"-"+poolerComponent+"-main-0", pod)
		r.WaitForSample(pod, poolerMetricsPort, 7, "postgresql_pooler_pool_size", `name="postgres"`)
		r.Query("RotateCredentials", platformv1.Parameters{"credential": "pooler"})
		r.WaitReady()
	})
	if after := p.ProcessStarts(); !maps.Equal(after, before) {
		t.Errorf("processes were started anew for what a reload takes over: %v, and before %v", after, before)
	}
	r.Update(func(spec *platformv1.ApplicationSpec) { spec.Components = spec.Components[:1] })
	r.WaitReady()
	r.Eventually(framework.SettleTimeout, "nothing is left of the pooler", func() error {
		for _, pod := range r.Pods() {
			if strings.Contains(pod.Name, "-"+poolerComponent+"-") {
				return fmt.Errorf("pod %s is there", pod.Name)
			}
		}
		if host := p.server.Binding()["pooler-host"]; host != "" {
			return fmt.Errorf("the binding names %s", host)
		}
		return nil
	})
}
