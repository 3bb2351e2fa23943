// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver"
)

// TestThePoolersConsoleIsOpenWhereClientsHaveAllConnections: the probe asks the console, for which PgBouncer does not
// count max_client_conn.
func TestThePoolersConsoleIsOpenWhereClientsHaveAllConnections(t *testing.T) {
	f := newFlock(t, 1)
	p := f.pooled("max_client_conn = 5")
	for range 5 {
		client, err := net.Dial("tcp", p.address+":6432")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
	}
	f.await("clients have all connections", func() bool {
		client := exec.Command(p.programs+"/psql", "-X", "-h", p.address, "-p", "6432", "-U", "postgres", "-c", "SELECT 1")
		client.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + p.root, "PGCONNECT_TIMEOUT=5", "PGPASSWORD=none"}
		said, _ := client.CombinedOutput()
		return strings.Contains(string(said), "no more connections allowed (max_client_conn)")
	})
	if said := p.console("SHOW VERSION"); !strings.HasPrefix(said, "PgBouncer ") {
		t.Errorf("the console says %q", said)
	}
	statement := driver.Statement{Text: "SHOW POOLS"}
	if _, err := p.driver("swim").Query(t.Context(), statement); err != nil {
		t.Errorf("who reads statistics is turned away: %v", err)
	}
}
