// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestRedisSentinelFailsOver has the Sentinels make another server the primary when they are told to: the one that is
// named, or the one that they find best, also while the primary is down. No write that was answered before is lost
// while the primary answers.
func TestRedisSentinelFailsOver(t *testing.T) {
	root := unpacked(t, "zeroinfra/redis:7.0")
	if os.Geteuid() != 0 {
		return
	}
	e := newElected(t, root)
	e.begin(state{mounted{password: "clients"}, mounted{password: "internal"}})
	other := func() (primary, replica *member) {
		primary, replica = e.primary(), e.servers()[0]
		if replica == primary {
			replica = e.servers()[1]
		}
		return primary, replica
	}
	// A job runs beside the members: it has the environment of none, and no name of its own.
	run := func(args ...string) (string, error) {
		sentinel := e.sentinels()[0]
		out, err := e.command(sentinel, sentinel.environ, append([]string{"failover"}, args...)...).CombinedOutput()
		return string(out), err
	}
	expect := func(replica *member, args ...string) {
		t.Helper()
		if out, err := run(args...); err != nil || !strings.Contains(out, replica.name+" is the primary") {
			t.Fatalf("the Sentinels do not fail over to %s: %v: %s", replica.pod(), err, out)
		}
	}

	primary, replica := other()
	if out := e.cli(primary, "default", "clients", "SET", "kept", "value"); out != "OK" {
		t.Fatalf("a write is answered with %q", out)
	}
	if out, err := run(primary.pod()); err == nil || !strings.Contains(out, "is the primary already") {
		t.Errorf("of the primary itself it says %q, %v", out, err)
	}
	if out, err := run("db-redis-main-4"); err == nil || !strings.Contains(out, "db-redis-main-4 cannot take over") {
		t.Errorf("of a pod that is not there it says %q, %v", out, err)
	}
	expect(replica, replica.pod())
	e.whole()
	if now := e.primary(); now != replica {
		t.Fatalf("%s is the primary, and %s was to be", now.pod(), replica.pod())
	}
	for _, m := range e.servers() {
		if out := e.cli(m, "default", "clients", "CONFIG", "GET", "replica-priority"); !strings.HasSuffix(out, "100") {
			t.Errorf("%s is left with %q", m.pod(), out)
		}
	}

	primary, replica = other()
	expect(replica)
	e.whole()

	// The process is killed: it does not answer, and the Sentinels are told before they miss it.
	primary, replica = other()
	e.ends(primary, syscall.SIGKILL)
	expect(replica)
	e.runs(primary)
	e.whole()
	if out := e.cli(replica, "default", "clients", "GET", "kept"); out != "value" {
		t.Errorf("%s has lost a write: %q", replica.pod(), out)
	}
	if out, err := run("db-redis-main-0 db-redis-main-1"); err == nil {
		t.Errorf("two names are taken for one: %s", out)
	}
}
