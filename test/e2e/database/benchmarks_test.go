// SPDX-License-Identifier: Apache-2.0

package database

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zeroinfra/test/e2e/framework"
)

// The scripts of benchmarks read a password, and run the program, one run after the other, until the file $1 is there.
// A run that sees an error is the last.
const (
	pgbenchScript = `IFS= read -r PGPASSWORD
export PGPASSWORD
while [ ! -e "$1" ]; do
  timeout 60 "$2" -h "$3" -p "$4" -U seller -n -b simple-update -c 4 -T 5 postgres || exit 1
done`
	// redis-benchmark takes a password as an argument only. It follows slots to their owners, and ends at any other error.
	// Between its runs it leaves the machine to those whose gaps are measured.
	redisBenchmarkScript = `IFS= read -r PASSWORD
while [ ! -e "$1" ]; do
  timeout 60 redis-benchmark --cluster -h "$2" -p "$3" -a "$PASSWORD" -q -t set -n 2000 -r 1000 -c 2 || exit 1
  sleep 0.5
done`
)

// What the programs say at the end of a run.
var (
	pgbenchDone   = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	pgbenchFailed = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	redisRun      = regexp.MustCompile(`SET: [0-9.]+ requests per second`)
)

// benchmark begins one of these scripts in a pod, with what comes after the file in its arguments. The end of it
// returns what the program said, and has the test fail where that saw an error.
func benchmark(s *framework.Namespace, pod, script, password string, arguments ...string) (end func() string) {
	s.Helper()
	stop := "/tmp/stop-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	// Only the command writes to them until it has ended.
	var said, failed bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		command := append([]string{"sh", "-c", script, "benchmark", stop}, arguments...)
		ended <- framework.Exec(s.Ctx, s.Name, pod, pod, command, strings.NewReader(password+"\n"), &said, &failed)
	}()
	return func() string {
		s.Helper()
		if _, err := framework.Run(s.Ctx, s.Name, pod, pod, "", "touch", stop); err != nil {
			s.Fatal(err)
		}
		if err := <-ended; err != nil {
			s.Errorf("the benchmark ended with %v: %s", err, failed.String())
		}
		return said.String()
	}
}

// bench begins to write with pgbench through the Service of the pooler, as the user seller. The end of it has the test
// fail where pgbench saw an error, or not all transactions that it counts are there.
func (p *pooled) bench() (end func()) {
	p.Helper()
	s, client := p.server, p.server.Client
	program := "/usr/lib/postgresql/" + framework.PostgreSQLVersion + "/bin/pgbench"
	s.SQL("postgres", "GRANT CREATE ON SCHEMA public TO seller")
	if _, err := framework.Run(p.Ctx, p.Namespace.Name, client, client, "", "env", "PGPASSWORD=apple", program, "-i", "-q",
		"-h", p.Name, "-U", "seller", "postgres"); err != nil {
		p.Fatal(err)
	}
	binding := s.Binding()
	ended := benchmark(p.Replicated.Application.Namespace, client, pgbenchScript, "apple", program, binding["pooler-host"],
		binding["pooler-port"])
	p.Eventually(framework.SettleTimeout, "pgbench writes", func() error {
		if s.SQL("postgres", "SELECT EXISTS (SELECT FROM pgbench_history)") != "t" {
			return errors.New("there is nothing of it")
		}
		return nil
	})
	return func() {
		p.Helper()
		said := ended()
		done := sum(pgbenchDone, said)
		p.Logf("pgbench has done %d transactions", done)
		if n := sum(pgbenchFailed, said); n > 0 {
			p.Errorf("%d transactions of pgbench failed", n)
		}
		s.WaitForAnswer(fmt.Sprint(done), "SELECT count(*) FROM pgbench_history")
	}
}

// bench begins to write with redis-benchmark. The end of it has the test fail where that saw another error than that a
// slot has moved.
func (r *redisCluster) bench() (end func()) {
	r.Helper()
	a := r.account()
	ended := benchmark(r.Namespace, r.ClientPod(), redisBenchmarkScript, a.Password, a.Host, a.Port)
	return func() {
		r.Helper()
		runs := len(redisRun.FindAllString(ended(), -1))
		r.Logf("redis-benchmark went through %d runs", runs)
		if runs == 0 {
			r.Error("redis-benchmark has done nothing")
		}
	}
}

// sum adds up the numbers that an expression finds.
func sum(expression *regexp.Regexp, text string) (total int) {
	for _, found := range expression.FindAllStringSubmatch(text, -1) {
		// The expression takes nothing but digits.
		n, _ := strconv.Atoi(found[1])
		total += n
	}
	return total
}
