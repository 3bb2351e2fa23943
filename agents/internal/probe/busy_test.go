// SPDX-License-Identifier: Apache-2.0

//go:build processes

package probe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// unhealthy is what has a process be restarted.
func unhealthy(o probe.Outcome) bool { return o.Cause != "" && o.OutOfConnections == "" }

// TestEtcdOutOfConnections: a member that lets its client wait for an answer is busy where its metrics say that it has
// as many files open as it gives to clients, and down otherwise.
func TestEtcdOutOfConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open, most string
		is         func(probe.Outcome) bool
	}{
		"full":        {"1.048426e+06", "1.048576e+06", away},
		"nearly full": {"873", "1024", unhealthy},
		"hung":        {"40", "1024", unhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "# TYPE process_max_fds gauge\nprocess_max_fds %s\nprocess_open_fds %s\n", c.most, c.open)
			}))
			t.Cleanup(metrics.Close)
			p := asked(t, "etcd/1.0.0", "etcd", "http://127.0.0.1:2381", metrics.URL)
			gives(t, p, name, c.is)
			metrics.Close()
			gives(t, p, "without metrics", unhealthy)
		})
	}
}

// asked is a probe that finds a server elsewhere, and whose etcdctl waits in vain.
func asked(t *testing.T, version, component, address, instead string) plan.Probe {
	t.Helper()
	p := declared(t, version, component)
	script := p.Command[len(p.Command)-1]
	if !strings.Contains(script, address) {
		t.Fatalf("the probe asks %s", script)
	}
	begin := strings.Index(script, "${")
	end := strings.Index(script, "'}") + len("'}")
	script = script[:begin] + "http://127.0.0.1:2379" + script[end:]
	tools := t.TempDir()
	said := "#!/bin/sh\necho 'context deadline exceeded' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(tools, "etcdctl"), []byte(said), 0o700); err != nil {
		t.Fatal(err)
	}
	p.Command = []string{"busybox", "sh", "-c", "PATH=" + tools + ":$PATH; " +
		strings.Replace(script, address, instead, 1)}
	return p
}

// TestMinIOBusy: a server that has more requests than it takes at once is alive.
func TestMinIOBusy(t *testing.T) {
	t.Parallel()
	p := declared(t, "../../storage-operator/plugins/minio/1.0.0", "minio")
	for name, c := range map[string]struct {
		said string
		is   func(probe.Outcome) bool
	}{
		"serves":       {`code=200\nstatus=online\nversion=2026.2`, func(o probe.Outcome) bool { return o.Cause == "" }},
		"busy":         {`code=503\nstatus=online\nversion=2026.2`, away},
		"not yet":      {`code=200\nstatus=offline\nversion=2026.2`, unhealthy},
		"does not say": {``, unhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			p.Command = []string{"printf", c.said + `\n`}
			gives(t, p, name, c.is)
		})
	}
}
