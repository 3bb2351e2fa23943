// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// TestOutOfConnectionsIsNotDown: a Redis with more clients than it may have stays what it was in the report and for the
// kubelet, and its process is not restarted.
func TestOutOfConnectionsIsNotDown(t *testing.T) {
	p := newRedisPod(t)
	pl := p.plan(1, "50mb")
	pl.Files[0].Entries = append(pl.Files[0].Entries, plan.Entry{Key: "maxclients", Args: []string{"40"}})
	pl.Probe.OutOfConnections = "(stderr + stdout).contains('max number of clients reached')"
	p.mount(pl)
	p.status()
	p.run()
	p.api.await(p.pod, "health", isHealthy)
	for range 60 {
		connection, err := net.Dial("tcp", "127.0.0.1:"+p.port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
	isFull := func(r report.Report) bool { return r.OutOfConnections != "" }
	last := p.api.await(p.pod, "that it is out of connections", isFull)
	if !isHealthy(last) || last.Role != "primary" || last.Attributes["maxmemory"] == "" || last.Starts != 1 {
		t.Errorf("the report is %+v", last)
	}
	if !strings.Contains(last.OutOfConnections, "max number of clients reached") {
		t.Errorf("it says %q", last.OutOfConnections)
	}
	p.awaitReady(http.StatusOK)
	for _, r := range p.api.all() {
		if r.Health == report.Unhealthy {
			t.Errorf("it was reported as %+v", r)
		}
	}
}
