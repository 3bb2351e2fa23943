// SPDX-License-Identifier: Apache-2.0

//go:build processes

package probe_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/probe"
	"github.com/zeroinfra/agents/internal/testnet"
)

// nginxConfig is the frame of the plugin with a worker that has few connections.
const nginxConfig = `daemon off;
pid %[1]s/pid;
error_log stderr;
worker_processes 1;
events { worker_connections 16; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  server {
    listen %[2]s;
  }
  server {
    listen %[3]s;
    keepalive_timeout 0;
    location = /health {
      default_type text/plain;
      return 200 "version: $nginx_version\n";
    }
  }
}
`

// TestNginxOutOfConnections: the probe of the plugin tells a server whose worker has no connection left apart from one
// that is hung and from one that is down.
func TestNginxOutOfConnections(t *testing.T) {
	t.Parallel()
	p := declared(t, "../../common-operator/plugins/nginx/1.0.0", "nginx")
	clients, health := testnet.FreeAddress(t), testnet.FreeAddress(t)
	p.Command = append([]string{"busybox"}, p.Command...)
	last := len(p.Command) - 1
	p.Command[last] = strings.Replace(p.Command[last], "127.0.0.1:8081", health, 1)
	if !strings.Contains(p.Command[last], health) {
		t.Fatalf("the probe asks %s", p.Command[last])
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, clients, health), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("nginx", "-c", config)
	server.Stderr = os.Stderr
	// With its worker, and that ends with it.
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := server.Start(); err != nil {
		t.Fatalf("%v: install Debian's package nginx-light", err)
	}
	stop := func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		_ = server.Wait()
	}
	t.Cleanup(stop)
	gives(t, p, "with connections left", func(o probe.Outcome) bool { return o.Cause == "" && o.Version != "" })

	connect := func() {
		connection, err := net.Dial("tcp", clients)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		// A request that does not end: nginx closes a connection without one for the next that comes, so that some of
		// those that come together are closed before theirs is read. A failure to write is one of them.
		_, _ = connection.Write([]byte("GET / HTTP/1.1\r\n"))
	}
	for range 16 {
		connect()
	}
	gives(t, p, "out of connections", func(o probe.Outcome) bool {
		if !away(o) {
			connect()
		}
		return away(o)
	})

	if err := syscall.Kill(-server.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	gives(t, p, "stopped", unhealthy)
	stop()
	gives(t, p, "gone", down)
}

// free is an address that nobody listens at.
