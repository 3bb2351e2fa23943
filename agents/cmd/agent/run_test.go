// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

func TestInitCopiesTheBinary(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		cmd := exec.Command(ownPath(t), "init", "--to", dir)
		cmd.Env = append(os.Environ(), asAgent+"=1")
		said, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(said), filepath.Join(dir, "agent")) {
			t.Fatalf("got %q, %v", said, err)
		}
	}
	copied := exec.Command(filepath.Join(dir, "agent"), "version")
	copied.Env = append(os.Environ(), asAgent+"=1")
	if got, err := copied.Output(); err != nil || string(got) != version+"\n" {
		t.Errorf("the copy says %q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "agent")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	missing := exec.Command(ownPath(t), "init", "--to", filepath.Join(dir, "missing"))
	missing.Env = append(os.Environ(), asAgent+"=1")
	if said, err := missing.CombinedOutput(); err == nil || !strings.Contains(string(said), "missing/agent") {
		t.Errorf("a missing folder: got %q, %v", said, err)
	}
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		script string
		want   int
	}{
		{"trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", 0},
		{"trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done", 7},
		{"echo up; exec sleep 1000", 143},
	} {
		p := newPod(t)
		p.mount(script(test.script))
		c := p.run()
		p.awaitOutput("up\n")
		if got := c.stop(syscall.SIGTERM); got != test.want {
			t.Errorf("%s: exit code is %d, want %d; log:\n%s", test.script, got, test.want, p.stderr)
		}
	}
}

func TestProcessThatIgnoresTheStopIsKilledWithItsGroup(t *testing.T) {
	p := newPod(t)
	pl := script("trap '' TERM; sleep 1000 & echo child $!; echo up; while :; do sleep 0.05; done")
	pl.Process.Stop.TimeoutSeconds = 1
	p.mount(pl)
	c := p.run()
	p.awaitOutput("up\n")
	if got := c.stop(syscall.SIGTERM); got != 137 {
		t.Errorf("exit code is %d", got)
	}
	_, rest, _ := strings.Cut(p.stdout.String(), "child ")
	child, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d of the group is still there: %v", child, err)
	}
}

func TestOutputIsTheProcessesOwn(t *testing.T) {
	p := newPod(t)
	p.mount(script(`printf 'a\tb\001\n'; echo to-stderr >&2; head -c 300000 /dev/zero | tr '\0' x; echo; exec sleep 1000`))
	c := p.run()
	p.awaitOutput("a\tb\x01\n" + strings.Repeat("x", 300000) + "\n")
	c.stop(syscall.SIGTERM)
	if got := p.stdout.String(); len(got) != len("a\tb\x01\n")+300001 {
		t.Errorf("the output has %d bytes", len(got))
	}
	for line := range strings.Lines(p.stderr.String()) {
		var entry map[string]any
		if line != "to-stderr\n" && json.Unmarshal([]byte(line), &entry) != nil {
			t.Errorf("line %q of the log is no JSON", line)
		}
	}
}

func TestStoppedReaderOfTheLogDoesNotKeepTheAgentFromStopping(t *testing.T) {
	p := newPod(t)
	p.mount(script("exec sleep 1000"))
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	// The pipe is full before anything is logged.
	fd := int(writer.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := syscall.Write(fd, make([]byte, 4096)); err != nil {
			break
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{ownPath(t), "run", "--tls-dir", p.path("tls"), "--listen", p.listen}, p.flags()...)
	c := p.start(p.stdout, writer, nil, argv)
	p.await(p.client(), "the process", isRunning)
	if got := c.stop(syscall.SIGTERM); got != 143 {
		t.Errorf("exit code is %d", got)
	}
}

func TestAsPID1(t *testing.T) {
	const orphans = 1000
	p := newPod(t)
	pl := script(fmt.Sprintf(`trap 'echo got HUP' HUP; trap 'exit 9' TERM
i=0; while [ $i -lt %d ]; do (setsid sh -c 'sleep 0.3; echo >>%s' &); i=$((i+1)); done; echo up $PPID
while :; do sleep 0.05; done`, orphans, p.path("data/orphans")))
	pl.Process.Signals = []string{"SIGHUP"}
	p.mount(pl)
	c := p.run(namespace()...)
	p.awaitOutput("up 1\n")
	pid1 := c.inner()
	eventually(t, func() error {
		data, err := os.ReadFile(p.path("data/orphans"))
		if err != nil || len(data) != orphans {
			return fmt.Errorf("%d orphans have run: %w", len(data), err)
		}
		// The process itself is the one child that stays.
		if left := children(t, pid1); len(left) != 1 {
			return fmt.Errorf("PID 1 has %d children", len(left))
		}
		return nil
	})
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

func TestStopSurvivesTheContainer(t *testing.T) {
	p := newPod(t)
	p.mount(script("echo up; exec sleep 1000"))
	c := p.run()
	client := p.client()
	p.await(client, "the process", isRunning)
	if _, err := client.Stop(p.ctx(), &agentv1.StopRequest{
		Header: &agentv1.CallHeader{IdempotencyKey: "stop", Term: 3}}); err != nil {
		t.Fatal(err)
	}
	if got := p.callDone(client, "stop"); got.GetPhase() != agentv1.CallPhase_CALL_PHASE_SUCCEEDED {
		t.Errorf("got %v", got)
	}
	// Also a kill of PID 1 must not lose it.
	if got := c.stop(syscall.SIGKILL); got != -1 {
		t.Errorf("exit code is %d", got)
	}
	c = p.run()
	status := p.await(client, "the record", func(s *agentv1.ProcessStatus) bool { return s.GetTerm() == 3 })
	if status.GetState() != agentv1.ProcessState_PROCESS_STATE_STOPPED || status.GetStarts() != 1 {
		t.Errorf("status is %v", status)
	}
	if got := strings.Count(p.stdout.String(), "up\n"); got != 1 {
		t.Errorf("the process ran %d times", got)
	}
	if got := c.stop(syscall.SIGTERM); got != 0 {
		t.Errorf("exit code is %d", got)
	}
}

func TestReloadCommandRunsBesideTheProcess(t *testing.T) {
	p := newPod(t)
	conf := p.path("config/app.conf")
	make := func(number int, reload string) *plan.Plan {
		pl := script("echo up; exec sleep 1000")
		pl.Digest = digest(number)
		pl.Process.Reload = &plan.Reload{Command: []string{"sh", "-c", reload},
			Env: []plan.EnvVar{{Name: "OUT", Value: p.path("data/reloaded")}}, TimeoutSeconds: 1}
		pl.Files = []plan.File{{Path: conf, Format: plan.FormatProperties,
			Entries: []plan.Entry{{Key: "number", Args: []string{fmt.Sprint(number)}}}}}
		return pl
	}
	p.mount(make(1, "true"))
	c := p.run()
	client := p.client()
	first := p.await(client, "the process", isRunning)
	for _, test := range []struct {
		number  int
		reload  string
		phase   agentv1.CallPhase
		message string
		content string
	}{
		{2, "cp " + conf + ` "$OUT"`, agentv1.CallPhase_CALL_PHASE_SUCCEEDED, "", "number=2\n"},
		{3, "echo bad directive >&2; exit 4", agentv1.CallPhase_CALL_PHASE_FAILED, "exit code 4: bad directive",
			"number=2\n"},
		{4, "sleep 1000 & wait", agentv1.CallPhase_CALL_PHASE_FAILED, "killed at its deadline of 1s", "number=2\n"},
	} {
		key := fmt.Sprint("reload ", test.number)
		if _, err := client.Reload(p.ctx(),
			&agentv1.ReloadRequest{Header: &agentv1.CallHeader{IdempotencyKey: key},
				Plan: encode(t, make(test.number, test.reload))}); err != nil {
			t.Fatal(err)
		}
		if got := p.callDone(client, key); got.GetPhase() != test.phase || !strings.Contains(got.GetMessage(), test.message) {
			t.Errorf("%s: got %v", key, got)
		}
		if got, err := os.ReadFile(conf); err != nil || string(got) != test.content {
			t.Errorf("%s: the file has %q, %v", key, got, err)
		}
	}
	if got, err := os.ReadFile(p.path("data/reloaded")); err != nil || string(got) != "number=2\n" {
		t.Errorf("the command saw %q, %v", got, err)
	}
	if last := p.await(client, "the process", isRunning); last.GetPid() != first.GetPid() ||
		last.GetConfigDigest() != digest(2) {
		t.Errorf("status is %v", last)
	}
	c.stop(syscall.SIGTERM)
}

func TestServerComesWithTheCertificates(t *testing.T) {
	p := newPod(t)
	p.mount(script("echo up; exec sleep 1000"))
	hidden := p.path("hidden")
	if err := os.Rename(p.path("tls"), hidden); err != nil {
		t.Fatal(err)
	}
	c := p.run()
	p.awaitOutput("up\n")
	if err := os.Rename(hidden, p.path("tls")); err != nil {
		t.Fatal(err)
	}
	p.await(p.client(), "the server", isRunning)
	begin := time.Now()
	c.stop(syscall.SIGTERM)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

func TestBrokenRecordIsNotOverlooked(t *testing.T) {
	p := newPod(t)
	p.mount(script("echo up; exec sleep 1000"))
	p.write("run/process-state.json", "{")
	if got := p.run().code(); got != 1 || !strings.Contains(p.stderr.String(), "process-state.json") {
		t.Errorf("exit code is %d, log:\n%s", got, p.stderr)
	}
	if got := p.stdout.String(); got != "" {
		t.Errorf("the process ran: %q", got)
	}
}
