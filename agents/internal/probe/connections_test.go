// SPDX-License-Identifier: Apache-2.0

//go:build processes

package probe_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/agents/internal/testpostgres"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// password is where run has that of the servers.
var password = &plan.SecretRef{Credential: "default", Key: "password"}

// declared is the probe of a component as a version of a plugin says it.
func declared(t *testing.T, version, component string) plan.Probe {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../database-operator/plugins", version, "components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Components []struct {
			Name  string
			Probe map[string]any
		}
	}
	if err := yaml.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	var declared plan.Probe
	for _, c := range all.Components {
		if c.Name != component {
			continue
		}
		if data, err = json.Marshal(c.Probe); err == nil {
			err = json.Unmarshal(data, &declared)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return declared
}

// hold opens so many connections to a server and keeps them.
func hold(t *testing.T, address string, count int) {
	t.Helper()
	for range count {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
}

// gives runs a probe until its outcome is as wanted.
func gives(t *testing.T, p plan.Probe, what string, is func(probe.Outcome) bool) {
	t.Helper()
	testpod.Eventually(t, func() error {
		if got := run(t, p); !is(got) {
			return fmt.Errorf("%s: the outcome is %+v", what, got)
		}
		return nil
	})
}

func healthy(o probe.Outcome) bool {
	return o.Cause == "" && o.Role == "primary" && o.OutOfConnections == ""
}
func reserved(o probe.Outcome) bool {
	return o.Cause == "" && o.Role == "primary" && o.OutOfConnections != ""
}
func away(o probe.Outcome) bool {
	return o.Cause == probe.CauseOutOfConnections && o.OutOfConnections != ""
}
func down(o probe.Outcome) bool {
	return strings.HasPrefix(string(o.Cause), "exit code") && o.OutOfConnections == ""
}

// TestPostgreSQLOutOfConnections: the probe of the plugin is let in while clients that are superusers have all other
// connections, and where nothing is kept for it, it tells such a server apart from one that is down.
func TestPostgreSQLOutOfConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, level, senders string
		full                 func(probe.Outcome) bool
	}{
		{"kept free", "replica", "max_wal_senders = 10", reserved},
		{"nothing kept free", "minimal", "max_wal_senders = 0", away},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testpostgres.New(t, "max_connections = 10", "wal_level = "+c.level, c.senders)
			stop, _ := s.Start()
			p := declared(t, "postgresql/1.0.0", "postgresql")
			if len(p.Reserved) == 0 {
				t.Fatal("the plugin declares no reserved way in")
			}
			host, port, err := net.SplitHostPort(s.Address)
			if err != nil {
				t.Fatal(err)
			}
			for i, argument := range p.Command {
				switch {
				case i == 0:
					p.Command[i] = psql(t)
				case strings.HasPrefix(argument, "--host="):
					p.Command[i] = "--host=" + host
				}
			}
			p.Command = append(p.Command, "--port="+port)
			p.Env = append(p.Env, plan.EnvVar{Name: "PGPASSWORD", Secret: password})
			gives(t, p, "with connections left", healthy)
			hog(t, host, port, 10)
			gives(t, p, "out of connections", c.full)
			stop()
			gives(t, p, "stopped", down)
		})
	}
}

// psql of the newest version that is installed.
func psql(t *testing.T) string {
	t.Helper()
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if err != nil || len(programs) == 0 {
		t.Fatal("there is no PostgreSQL: install Debian's package postgresql")
	}
	return slices.MaxFunc(programs, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
}

// hog has real clients of the superuser take all connections.
func hog(t *testing.T, host, port string, count int) {
	t.Helper()
	client := func(statement string) *exec.Cmd {
		client := exec.Command(psql(t), "-X", "-h", host, "-p", port, "-U", "postgres", "-d", "postgres", "-c", statement)
		client.Env = []string{"PGPASSWORD=" + testpostgres.Password, "PATH=/usr/bin:/bin"}
		return client
	}
	for range count {
		client := client("SELECT pg_sleep(1000)")
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = client.Process.Kill()
			_ = client.Wait()
		})
	}
	testpod.Eventually(t, func() error {
		if said, err := client("SELECT 1").CombinedOutput(); err == nil {
			return fmt.Errorf("there are connections left: %s", said)
		}
		return nil
	})
}

// TestRedisOutOfConnections: the probe of the plugin tells a server that has as many clients as it may have apart from
// one that is down, also where it closes connections before a handshake.
func TestRedisOutOfConnections(t *testing.T) {
	t.Parallel()
	for _, secure := range []string{"plain", "tls"} {
		t.Run(secure, func(t *testing.T) {
			dir, ca := t.TempDir(), testpki.New(t)
			ca.Mount(t, dir, ca)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := listener.Addr().String()
			listener.Close()
			_, port, _ := net.SplitHostPort(address)
			argv := []string{"--bind", "127.0.0.1", "--dir", dir, "--save", "", "--requirepass", "hunter2",
				"--maxclients", "10"}
			command := []string{"redis-cli", "-e", "-h", "127.0.0.1", "-p", port, "--no-auth-warning"}
			if secure == "tls" {
				argv = append(argv, "--port", "0", "--tls-port", port, "--tls-auth-clients", "no",
					"--tls-cert-file", dir+"/tls.crt", "--tls-key-file", dir+"/tls.key", "--tls-ca-cert-file", dir+"/ca.crt")
				command = append(command, "--tls", "--cacert", dir+"/ca.crt")
			} else {
				argv = append(argv, "--port", port)
			}
			server := exec.Command("redis-server", argv...)
			if err := server.Start(); err != nil {
				t.Fatalf("%v: install Debian's package redis-server", err)
			}
			stop := func() {
				_ = server.Process.Kill()
				_ = server.Wait()
			}
			t.Cleanup(stop)

			p := declared(t, "redis/1.0.0", "redis")
			if p.OutOfConnections == "" {
				t.Fatal("the plugin does not tell it apart")
			}
			p.Command = append(command, "INFO", "server", "persistence", "replication")
			p.Env = []plan.EnvVar{{Name: "REDISCLI_AUTH", Secret: password}}
			gives(t, p, "with connections left", healthy)
			hold(t, address, 20)
			for range 10 {
				gives(t, p, "out of connections", away)
			}
			stop()
			gives(t, p, "stopped", down)
		})
	}
}
