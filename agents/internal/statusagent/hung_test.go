// SPDX-License-Identifier: Apache-2.0

//go:build processes

package statusagent_test

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testpostgres"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// TestAServerThatIsStopped is known to be within its three probes, one right after the other, and the report says how
// long that took.
func TestAServerThatIsStopped(t *testing.T) {
	s := testpostgres.New(t)
	_, process := s.Start()
	clients, err := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if err != nil || len(clients) == 0 {
		t.Fatal("there is no psql: install Debian's package postgresql-client")
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, plan.Probe{Command: []string{clients[0], "-X", "-A", "-t", "-h", host, "-p", port, "-U", "postgres",
		"-c", "SELECT 1"},
		Env: []plan.EnvVar{{Name: "PGPASSWORD", Value: testpostgres.Password}}, IntervalSeconds: 2, TimeoutSeconds: 2})
	p.await("health", isHealthy)
	begin := time.Now()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.await("that nobody answers", func(r report.Report) bool {
		return r.Health == report.Unhealthy && r.FailedForMs >= 4000
	})
	took := time.Since(begin)
	t.Logf("known after %v", took)
	if took < 6*time.Second || took > 12*time.Second {
		t.Errorf("it is known after %v", took)
	}
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.await("health again", func(r report.Report) bool { return isHealthy(r) && r.FailedForMs == 0 })
}
