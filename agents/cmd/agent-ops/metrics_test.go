// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// asking has the plan of the pod, whatever else it is, ask for metrics.
func (p *pod) asking(prefix string, queries ...plan.MetricsQuery) {
	p.Helper()
	data, err := os.ReadFile(p.path("plan", "plan.json"))
	if err != nil {
		p.Fatal(err)
	}
	var declared plan.Plan
	if err := json.Unmarshal(data, &declared); err != nil {
		p.Fatal(err)
	}
	declared.Metrics = &plan.Metrics{Prefix: prefix, Queries: queries}
	p.plan(declared)
}

// metrics starts the container that tells them, and returns what reads them.
func (p *pod) metrics(client *http.Client, flags ...string) (read func() string, process *os.Process) {
	p.Helper()
	own, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	address := testnet.FreeAddress(p)
	var said bytes.Buffer
	cmd := exec.Command(own, append([]string{"metrics", "--plan-dir", p.path("plan"), "--config-dir", p.path("config"),
		"--run-dir", p.path("run"), "--secrets-dir", p.path("secrets"),
		"--certificates-dir", p.path("certs"), "--socket", p.path("run", "process.sock"), "--listen", address}, flags...)...)
	cmd.Env = append(os.Environ(), asAgent+"=1", "POD_NAME=redis-0")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if strings.Contains(said.String(), "hunter2") {
			p.Error("a password is in the log")
		}
	})
	scheme := "http://"
	if client.Transport != nil {
		scheme = "https://"
	}
	read = func() string {
		p.Helper()
		var response *http.Response
		testpod.Eventually(p.T, func() (err error) {
			if response, err = client.Get(scheme + address + "/metrics"); err != nil {
				return fmt.Errorf("%w: %s", err, said.String())
			}
			return nil
		})
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			p.Fatalf("%s: %s, %v", response.Status, body, err)
		}
		return string(body)
	}
	return read, cmd.Process
}

func gauge(name string) plan.Metric {
	return plan.Metric{Name: name, Type: plan.MetricGauge, Help: "What the test asks for."}
}

func expect(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("there is no %q in:\n%s", line, text)
		}
	}
}

func TestMetricsOfPostgreSQL(t *testing.T) {
	p := newPod(t)
	s, _ := p.withPostgreSQL()
	s.SQL("postgres", "CREATE TABLE public.asked (n int); INSERT INTO public.asked VALUES (0)")
	p.asking("postgresql",
		plan.MetricsQuery{Name: "databases",
			Statement: "SELECT datname AS name, datallowconn AS allowed, oid AS number_total, NULL AS nothing FROM pg_database",
			Labels:    []string{"name"}, IntervalSeconds: 3600,
			Metrics: []plan.Metric{{Name: "database_allowed", Column: "allowed", Type: plan.MetricGauge, Help: "Allowed."},
				{Name: "number_total", Type: plan.MetricCounter, Help: "Number."}, gauge("nothing")}},
		plan.MetricsQuery{Name: "wrong", Statement: "SELECT * FROM nothing", Metrics: []plan.Metric{gauge("wrong")}},
		plan.MetricsQuery{Name: "words", Statement: "SELECT 'many' AS words", Metrics: []plan.Metric{gauge("words")}},
		plan.MetricsQuery{Name: "column", Statement: "SELECT 1 AS one", Metrics: []plan.Metric{gauge("two")}},
		plan.MetricsQuery{Name: "writes", Statement: "UPDATE public.asked SET n = n + 1 RETURNING n AS writes",
			Metrics: []plan.Metric{gauge("writes")}},
		plan.MetricsQuery{Name: "many", Statement: "SELECT i AS label, i AS many FROM generate_series(1, 700) i",
			Labels: []string{"label"}, Metrics: []plan.Metric{gauge("many")}},
		plan.MetricsQuery{Name: "twice", Statement: "SELECT 'a' AS label, i AS twice FROM generate_series(1, 2) i",
			Labels: []string{"label"}, Metrics: []plan.Metric{gauge("twice")}},
		plan.MetricsQuery{Name: "hangs", Statement: "SELECT pg_sleep(1000), 1 AS hangs", TimeoutSeconds: 1,
			Metrics: []plan.Metric{gauge("hangs")}},
		plan.MetricsQuery{Name: "after", Statement: "SELECT 7 AS after", Metrics: []plan.Metric{gauge("after")}},
	)
	read, process := p.metrics(http.DefaultClient)
	text := read()
	expect(t, text, `postgresql_database_allowed{name="template0"} 0`, `postgresql_database_allowed{name="postgres"} 1`,
		"postgresql_number_total{name=\"postgres\"} ",
		"postgresql_after 7", `postgresql_twice{label="a"} 1`, `postgresql_query_dropped_series{query="many"} 200`,
		`postgresql_query_dropped_series{query="twice"} 1`,
		`postgresql_query_success{query="databases"} 1`, `postgresql_query_duration_seconds{query="databases"} `)
	for _, failed := range []string{"wrong", "words", "column", "writes", "hangs"} {
		expect(t, text, `postgresql_query_success{query="`+failed+`"} 0`)
		if strings.Contains(text, "\npostgresql_"+failed+" ") {
			t.Errorf("%s is told", failed)
		}
	}
	if strings.Count(text, "\npostgresql_many{") != 500 ||
		!strings.Contains(text, "# TYPE postgresql_number_total counter\n") {
		t.Error("too many series are told, or a counter is none")
	}
	// Within its interval nothing is asked again.
	s.SQL("postgres", "CREATE DATABASE later")
	if strings.Contains(read(), `name="later"`) {
		t.Error("a query was asked again within its interval")
	}
	for range 20 {
		read()
	}
	kib := memoryOf(t, process.Pid)
	t.Logf("%d KiB resident after 22 reads of 500 series", kib)
	if kib > 48<<10 {
		t.Errorf("%d KiB are resident: at most 48 MiB are allowed", kib)
	}
}

// A server that does not answer is told as such, in time.
func TestMetricsOfAHungServer(t *testing.T) {
	p := newPod(t)
	_, process := p.withPostgreSQL()
	var queries []plan.MetricsQuery
	for _, name := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"} {
		queries = append(queries, plan.MetricsQuery{Name: name, Statement: "SELECT 1 AS " + name, IntervalSeconds: 1,
			TimeoutSeconds: 2, Metrics: []plan.Metric{gauge(name)}})
	}
	p.asking("postgresql", queries...)
	read, _ := p.metrics(http.DefaultClient)
	expect(t, read(), "postgresql_one 1")
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// What was answered before holds within its interval, and then no more.
	testpod.Eventually(t, func() error {
		begin := time.Now()
		text := read()
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		if !strings.Contains(text, `query_success{query="one"} 0`) ||
			!strings.Contains(text, `query_success{query="ten"} 0`) {
			return errors.New(text)
		}
		return nil
	})
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testpod.Eventually(t, func() error {
		if !strings.Contains(read(), "\npostgresql_ten 1") {
			return errors.New("it is not told again")
		}
		return nil
	})
}

func TestMetricsOfRedisOverTLS(t *testing.T) {
	p := newPod(t)
	p.withRedis("hunter2")
	p.asking("redis", plan.MetricsQuery{Name: "memory", Statement: "INFO memory", Metrics: []plan.Metric{
		{Name: "memory_used_bytes", Column: "used_memory", Type: plan.MetricGauge,
			Help: "Memory that Redis has allocated."}}},
		plan.MetricsQuery{Name: "writes", Statement: "SET a b", Metrics: []plan.Metric{gauge("value")}})
	ca := testpki.New(t)
	if err := os.MkdirAll(p.path("certs"), 0o750); err != nil {
		t.Fatal(err)
	}
	ca.Mount(t, p.path("certs"), ca)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	read, _ := p.metrics(client, "--tls")
	expect(t, read(), "redis_memory_used_bytes ", `redis_query_success{query="memory"} 1`,
		`redis_query_success{query="writes"} 0`)
}
