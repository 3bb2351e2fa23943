// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	succeeded = agentv1.CallPhase_CALL_PHASE_SUCCEEDED
	failed    = agentv1.CallPhase_CALL_PHASE_FAILED
)

// dynamic is a plan whose dynamic settings are given to the running server.
func (p *redisPod) dynamic(number int, keysAndValues ...string) *plan.Plan {
	pl := p.plan(number, "")
	pl.RestartDigest, pl.Domain = digest(1000), "redis.demo.svc"
	secret := &plan.SecretRef{Credential: "default", Key: "password"}
	pl.Process.Reload = &plan.Reload{Each: []string{"redis-cli", "-e", "-p", p.port, "--no-auth-warning", "CONFIG", "SET"},
		Env: []plan.EnvVar{{Name: "REDISCLI_AUTH", Secret: secret}}}
	entries := pl.Files[0].Entries
	entries[len(entries)-1] = plan.Entry{Key: "cluster-announce-hostname", Args: []string{"${pod.fqdn}"}}
	for pair := range slices.Chunk(keysAndValues, 2) {
		entries = append(entries, plan.Entry{Key: pair[0], Args: []string{pair[1]}, Dynamic: true})
	}
	pl.Files[0].Entries = entries
	return pl
}

// runID names the present run of the server.
func (p *redisPod) runID() string {
	p.Helper()
	said, err := p.cli("INFO", "server")
	if err != nil {
		p.Fatal(said)
	}
	for line := range strings.Lines(said) {
		if id, found := strings.CutPrefix(line, "run_id:"); found {
			return strings.TrimSpace(id)
		}
	}
	p.Fatalf("there is no run_id in %q", said)
	return ""
}

// reload makes the call and returns its outcome.
func (p *pod) reload(client agentv1.ProcessServiceClient, key string, pl *plan.Plan) *agentv1.CallRecord {
	p.Helper()
	if _, err := client.Reload(p.ctx(),
		&agentv1.ReloadRequest{Header: &agentv1.CallHeader{IdempotencyKey: key}, Plan: encode(p.T, pl)}); err != nil {
		p.Fatal(err)
	}
	return p.callDone(client, key)
}

func (p *pod) wantRecord(got *agentv1.CallRecord, phase agentv1.CallPhase, reason, message string) {
	p.Helper()
	if got.GetPhase() != phase || got.GetReason() != reason || !strings.Contains(got.GetMessage(), message) {
		p.Errorf("got %v; want %v, reason %q, message %q", got, phase, reason, message)
	}
}

func TestRedisTakesOverSettingsWhileItRuns(t *testing.T) {
	p := newRedisPod(t)
	p.mount(p.dynamic(1, "maxmemory", "50mb"))
	p.status()
	c := p.run()
	client := p.client()
	p.api.await(p.pod, "health", isHealthy)
	run := p.runID()
	p.wantReply("cluster-announce-hostname\nredis-0.redis.demo.svc", "CONFIG", "GET", "cluster-announce-hostname")

	second := p.dynamic(2, "maxmemory", "60mb", "maxmemory-policy", "allkeys-lru")
	p.wantRecord(p.reload(client, "second", second), succeeded, "", "")
	p.wantReply("maxmemory\n62914560", "CONFIG", "GET", "maxmemory")
	p.wantReply("maxmemory-policy\nallkeys-lru", "CONFIG", "GET", "maxmemory-policy")
	got := p.api.await(p.pod, "the outcome", func(r report.Report) bool {
		return isHealthy(r) && r.LastCall != nil && r.LastCall.Phase == report.CallSucceeded
	})
	if got.ConfigDigest != digest(2) || got.RestartDigest != digest(1000) || got.Starts != 1 {
		t.Errorf("report is %+v", got)
	}

	refused := p.reload(client, "refused", p.dynamic(3, "maxmemory", "70mb", "maxmemory-policy", "a;b"))
	p.wantRecord(refused, failed, "", `setting "maxmemory-policy": exit code 1: ERR CONFIG SET failed`)
	p.api.await(p.pod, "the failure", func(r report.Report) bool {
		return r.ConfigDigest == report.DigestMixed && r.LastCall.Phase == report.CallFailed
	})
	p.wantReply("maxmemory\n73400320", "CONFIG", "GET", "maxmemory")
	p.wantRecord(p.reload(client, "gone", p.dynamic(4, "maxmemory", "80mb")), failed, report.ReasonRestartRequired,
		"maxmemory-policy")
	p.wantReply("maxmemory\n73400320", "CONFIG", "GET", "maxmemory")
	p.api.await(p.pod, "the reason", func(r report.Report) bool {
		return r.LastCall.Key == "gone" && r.LastCall.Reason == report.ReasonRestartRequired
	})
	p.wantRecord(p.reload(client, "back", second), succeeded, "", "")
	p.wantReply("maxmemory\n62914560", "CONFIG", "GET", "maxmemory")
	if now := p.runID(); now != run {
		t.Errorf("the server was restarted: run_id was %s and is %s", run, now)
	}

	// The new value is in the file, and outlives the process.
	before := p.await(client, "the process", isRunning)
	if err := syscall.Kill(int(before.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := p.api.await(p.pod, "the second start", func(r report.Report) bool { return isHealthy(r) && r.Starts == 2 })
	p.wantReply("maxmemory\n62914560", "CONFIG", "GET", "maxmemory")
	p.wantReply("maxmemory-policy\nallkeys-lru", "CONFIG", "GET", "maxmemory-policy")
	if again.ConfigDigest != digest(2) || again.RestartDigest != digest(1000) || p.runID() == run {
		t.Errorf("report is %+v", again)
	}

	// And the container, although the mounted plan is still the first.
	if got := c.stop(syscall.SIGTERM); got != 0 {
		t.Errorf("exit code is %d", got)
	}
	p.run()
	p.api.await(p.pod, "the next container",
		func(r report.Report) bool { return isHealthy(r) && r.Starts == 3 && r.ConfigDigest == digest(2) })
	p.wantReply("maxmemory\n62914560", "CONFIG", "GET", "maxmemory")
}

// A setting that is taken out goes back to what the server has without it, and is gone from the file that the next
// process starts from.
func TestRedisGoesBackToItsOwnValues(t *testing.T) {
	p := newRedisPod(t)
	initial := map[string]string{"notify-keyspace-events": "", "slowlog-log-slower-than": "10000",
		"latency-tracking-info-percentiles": "50 99 99.9"}
	dynamic := func(number int, keysAndValues ...string) *plan.Plan {
		pl := p.dynamic(number, keysAndValues...)
		pl.Process.Reload.ResetValues = initial
		return pl
	}
	p.mount(dynamic(1, "maxmemory", "50mb", "notify-keyspace-events", "KEA", "slowlog-log-slower-than", "-1"))
	p.status()
	p.run()
	client := p.client()
	p.api.await(p.pod, "health", isHealthy)
	run := p.runID()
	p.wantReply("slowlog-log-slower-than\n-1", "CONFIG", "GET", "slowlog-log-slower-than")

	p.wantRecord(p.reload(client, "out", dynamic(2, "maxmemory", "60mb")), succeeded, "", "")
	p.wantReply("maxmemory\n62914560", "CONFIG", "GET", "maxmemory")
	p.wantReply("notify-keyspace-events", "CONFIG", "GET", "notify-keyspace-events")
	p.wantReply("slowlog-log-slower-than\n10000", "CONFIG", "GET", "slowlog-log-slower-than")
	p.wantRecord(p.reload(client, "lists",
		dynamic(3, "maxmemory", "60mb", "latency-tracking-info-percentiles", "10 20", "save", "60 1")), succeeded, "", "")
	p.wantReply("latency-tracking-info-percentiles\n10 20", "CONFIG", "GET", "latency-tracking-info-percentiles")
	p.wantReply("save\n60 1", "CONFIG", "GET", "save")

	// A refusal names the setting, and what was there before is still there; so it is after a restart.
	refused := p.reload(client, "refused",
		dynamic(4, "hash-max-listpack-value", "8888888888gb", "maxmemory", "60mb", "latency-tracking-info-percentiles",
			"10 20", "save", "60 1"))
	p.wantRecord(refused, failed, "", `setting "hash-max-listpack-value": exit code 1: ERR CONFIG SET failed`)
	p.wantReply("latency-tracking-info-percentiles\n10 20", "CONFIG", "GET", "latency-tracking-info-percentiles")
	if now := p.runID(); now != run {
		t.Errorf("the server was restarted: run_id was %s and is %s", run, now)
	}
	before := p.await(client, "the process", isRunning)
	if err := syscall.Kill(int(before.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.api.await(p.pod, "the second start", func(r report.Report) bool { return isHealthy(r) && r.Starts == 2 })
	p.wantReply("maxmemory\n62914560", "CONFIG", "GET", "maxmemory")
	p.wantReply("latency-tracking-info-percentiles\n10 20", "CONFIG", "GET", "latency-tracking-info-percentiles")
	p.wantReply("slowlog-log-slower-than\n10000", "CONFIG", "GET", "slowlog-log-slower-than")
	if p.runID() == run {
		t.Error("the server was not restarted")
	}
}

func TestRedisGetsASecretAsItIs(t *testing.T) {
	p := newRedisPod(t)
	p.mount(p.dynamic(1))
	p.run()
	client := p.client()
	p.await(client, "the process", isRunning)
	next := p.dynamic(2)
	next.Files[0].Entries = append(next.Files[0].Entries,
		plan.Entry{Key: "masterauth", Secret: &plan.SecretRef{Credential: "default", Key: "password"}, Dynamic: true})
	p.wantRecord(p.reload(client, "secret", next), succeeded, "", "")
	p.wantReply("masterauth\n"+password, "CONFIG", "GET", "masterauth")
}

func TestMessagesOfReloadsHaveNoSecrets(t *testing.T) {
	p := newPod(t)
	p.write("secrets/default/password", password)
	secret := &plan.SecretRef{Credential: "default", Key: "password"}
	make := func(number int, key string) *plan.Plan {
		pl := script("echo up; exec sleep 1000")
		pl.Digest = digest(number)
		pl.Process.Reload = &plan.Reload{Each: []string{"sh", "-c", `printf 'cannot set %s to <%s>' "$0" "$1" >&2; exit 3`}}
		pl.Files = []plan.File{{Path: p.path("config/app.conf"), Format: plan.FormatRedis, Entries: []plan.Entry{
			{Key: key, Args: []string{"user"}, Secret: secret, Dynamic: true}}}}
		return pl
	}
	p.mount(make(1, "before"))
	p.run()
	client := p.client()
	p.await(client, "the process", isRunning)
	next := make(2, "before")
	next.Files[0].Entries = append(next.Files[0].Entries, make(2, "auth").Files[0].Entries...)
	p.wantRecord(p.reload(client, "r", next), failed, "", `setting "auth": exit code 3: cannot set auth to <user ***>`)
	for _, file := range []string{"run/process-state.json", "run/pushed-plan.json"} {
		data, err := os.ReadFile(p.path(file))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "maxmemory") || strings.Contains(p.stderr.String(), "maxmemory") {
			t.Errorf("a part of the password is in %s or in the log:\n%s\n%s", file, data, p.stderr)
		}
	}
}

// TestReloadLeavesPID1AsItWas has reload commands leave behind what they can, and then asks PID 1 for all that it
// promises.
func TestReloadLeavesPID1AsItWas(t *testing.T) {
	p := newPod(t)
	make := func(number int) *plan.Plan {
		pl := script(`trap 'echo got HUP' HUP; trap 'exit 9' TERM; echo up $PPID; while :; do sleep 0.05; done`)
		pl.Digest, pl.Process.Signals = digest(number), []string{"SIGHUP"}
		pl.Process.Reload = &plan.Reload{Each: []string{"sh", "-c",
			`(setsid sh -c 'exec sleep 0.2' &); (sleep 1000 &); (exit 3) & echo "$0=$1" >>` + p.path("data/given")}}
		pl.Files = []plan.File{{Path: p.path("config/app.conf"), Format: plan.FormatProperties,
			Entries: []plan.Entry{{Key: "n", Args: []string{fmt.Sprint(number)}, Dynamic: true}}}}
		return pl
	}
	p.mount(make(1))
	c := p.run(namespace()...)
	p.awaitOutput("up 1\n")
	client := p.client()
	first := p.await(client, "the process", isRunning)
	var want string
	for number := range 20 {
		p.wantRecord(p.reload(client, fmt.Sprint("r", number), make(number+2)), succeeded, "", "")
		want += fmt.Sprintf("n=%d\n", number+2)
	}
	if got, err := os.ReadFile(p.path("data/given")); err != nil || string(got) != want {
		t.Errorf("the commands got %q, %v", got, err)
	}
	pid1 := c.inner()
	eventually(t, func() error {
		if left := children(t, pid1); len(left) != 1 {
			return fmt.Errorf("PID 1 has %d children", len(left))
		}
		return nil
	})
	if last := p.await(client, "the process", isRunning); last.GetPid() != first.GetPid() || last.GetStarts() != 1 ||
		last.GetConfigDigest() != digest(21) {
		t.Errorf("status is %v", last)
	}
	if err := syscall.Kill(pid1, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.awaitOutput("got HUP\n")
	if err := syscall.Kill(pid1, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := c.code(); got != 9 {
		t.Errorf("exit code is %d; log:\n%s", got, p.stderr)
	}
}

func TestWhatLeftTheGroupDoesNotOutliveTheProcess(t *testing.T) {
	p := newPod(t)
	// Were the daemon still there when the process is started again, the second would find its file.
	alive := p.path("data/alive")
	p.mount(script(`if [ -e ` + alive + ` ] && kill -0 $(cat ` + alive + `); then echo two at once; fi
setsid sh -c 'trap "" TERM; echo $$ >` + alive +
		`; echo daemon; while :; do sleep 1000; done' & while :; do sleep 0.05; done`))
	c := p.run(namespace()...)
	client := p.client()
	p.awaitOutput("daemon\n")
	_, err := client.Restart(p.ctx(), &agentv1.RestartRequest{Header: &agentv1.CallHeader{IdempotencyKey: "r"}})
	if err != nil {
		t.Fatal(err)
	}
	p.wantRecord(p.callDone(client, "r"), succeeded, "", "")
	p.awaitOutput("daemon\ndaemon\n")
	if got := p.stdout.String(); strings.Contains(got, "two at once") {
		t.Errorf("the output is %q", got)
	}
	if err := syscall.Kill(c.inner(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := c.code(); got != 143 {
		t.Errorf("exit code is %d; log:\n%s", got, p.stderr)
	}
}
