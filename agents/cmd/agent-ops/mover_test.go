// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	passphrase = "correct horse battery staple"
	shopKey    = "production/shop/nightly-1a2b3c4d"
)

// carrier is the folders of pods that carry backups, and their repository.
type carrier struct {
	*testing.T
	root       string
	repository protocol.Repository
	// wrap comes before the command line of the mover, flags after it.
	wrap, flags []string
	env         []string
	pods        int
}

// newMover has a volume for a repository.
func newMover(t *testing.T) *carrier {
	t.Helper()
	m := &carrier{T: t, root: t.TempDir(),
		repository: protocol.Repository{Type: protocol.TypeVolume, Prefix: "team/backups"}}
	for _, dir := range []string{"volume", "credentials"} {
		if err := os.Mkdir(m.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write("passphrase", []byte(passphrase+"\n"))
	return m
}

func (m *carrier) path(parts ...string) string {
	return filepath.Join(append([]string{m.root}, parts...)...)
}

// kept is the path of a file of the backup.
func (m *carrier) kept(parts ...string) string {
	return m.path(append([]string{"volume", "team", "backups", shopKey}, parts...)...)
}

func (m *carrier) write(name string, content []byte) {
	m.Helper()
	if err := os.WriteFile(m.path(name), content, 0o600); err != nil {
		m.Fatal(err)
	}
}

// input is a file of random bytes.
func (m *carrier) input(name string, size int) []byte {
	m.Helper()
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte([]byte("a seed of thirty-two bytes, yes!"))).Read(content)
	m.write(name, content)
	return content
}

// moverPod is one that runs.
type moverPod struct {
	*carrier
	process *exec.Cmd
	result  string
	said    string
	ended   chan struct{}
}

// log is what it has said so far.
func (p *moverPod) log() string {
	p.Helper()
	said, err := os.ReadFile(p.said)
	if err != nil {
		p.Fatal(err)
	}
	return string(said)
}

// start starts a pod with a plan. Its command runs in the folder of the test.
func (m *carrier) start(plan protocol.Plan) *moverPod {
	m.Helper()
	own, err := os.Executable()
	if err != nil {
		m.Fatal(err)
	}
	m.pods++
	p := &moverPod{carrier: m, result: m.path("result-" + string(rune('a'+m.pods))), ended: make(chan struct{})}
	if plan.Repository.Type == "" && plan.Verb != protocol.VerbAdopt {
		plan.Repository = m.repository
	}
	file := "plan-" + string(rune('a'+m.pods))
	m.write(file, must(json.Marshal(plan)))
	words := append(append(m.wrap[:len(m.wrap):len(m.wrap)], own, "mover", "--plan", m.path(file), "--credentials",
		m.path("credentials"), "--key", m.path("passphrase"),
		"--volume", m.path("volume"), "--result", p.result), m.flags...)
	p.process = exec.Command(words[0], words[1:]...)
	p.process.Dir = m.root
	p.process.Env = append(append(os.Environ(), asAgent+"=1"), m.env...)
	p.said = p.result + "-log"
	log, err := os.Create(p.said)
	if err != nil {
		m.Fatal(err)
	}
	defer log.Close()
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.process.Start(); err != nil {
		m.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.process.Wait()
	}()
	m.Cleanup(func() { _ = p.process.Process.Kill(); <-p.ended })
	return p
}

// end waits for the pod's end and returns the result.
func (p *moverPod) end() protocol.Result {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(4 * patience):
		p.Fatalf("it does not end: %s", p.log())
	}
	text, err := os.ReadFile(p.result)
	if err != nil {
		p.Fatalf("%v: %s", err, p.log())
	}
	var result protocol.Result
	if err := json.Unmarshal(text, &result); err != nil {
		p.Fatalf("%v: %s", err, text)
	}
	if len(text) > protocol.MaxResult {
		p.Errorf("the result has %d bytes", len(text))
	}
	if (result.Reason == "") != (p.process.ProcessState.ExitCode() == 0) {
		p.Errorf("exit code %d with the result %s", p.process.ProcessState.ExitCode(), text)
	}
	return result
}

func (m *carrier) run(plan protocol.Plan) protocol.Result {
	m.Helper()
	return m.start(plan).end()
}

// succeeds runs a plan that has to end well.
func (m *carrier) succeeds(plan protocol.Plan) protocol.Result {
	m.Helper()
	p := m.start(plan)
	result := p.end()
	if result.Reason != "" {
		m.Fatalf("%s: %s: %s\n%s", plan.Verb, result.Reason, result.Message, p.log())
	}
	return result
}

// fails runs a plan that has to end with a reason, and to say something.
func (m *carrier) fails(plan protocol.Plan, reason, says string) {
	m.Helper()
	result := m.run(plan)
	if result.Reason != reason || !strings.Contains(result.Message, says) {
		m.Errorf("%s ended with %q: %q; expected %q with %q", plan.Verb, result.Reason, result.Message, reason, says)
	}
}

// await waits for a condition.
func (m *carrier) await(what string, holds func() bool) {
	m.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			m.Fatalf("still not: %s", what)
		}
	}
}

// backup is the plan of one, by an attempt with a command for the shell.
func backup(attempt, script string) protocol.Plan {
	return protocol.Plan{Verb: protocol.VerbBackup, Command: shell(script),
		Backup: &protocol.Backup{Key: shopKey, Attempt: attempt, Metadata: json.RawMessage(`{"plugin":"redis"}`)}}
}

// restore is the plan of one into a file. What the command does after its input has ended is told by another file.
func restore() protocol.Plan {
	return protocol.Plan{Verb: protocol.VerbRestore, Command: shell("cat > restored; touch done"),
		Backup: &protocol.Backup{Key: shopKey}}
}

func of(verb protocol.Verb) protocol.Plan {
	plan := protocol.Plan{Verb: verb}
	if verb != protocol.VerbList && verb != protocol.VerbRecall && verb != protocol.VerbCheck {
		plan.Backup = &protocol.Backup{Key: shopKey}
	}
	plan.Verify = verb == protocol.VerbInspect
	return plan
}

func shell(script string) []string { return []string{"sh", "-c", script} }

// files are all that is in the volume.
func (m *carrier) files() []string {
	m.Helper()
	var files []string
	err := filepath.WalkDir(m.path("volume"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, m.path("volume")+"/"))
		}
		return err
	})
	if err != nil {
		m.Fatal(err)
	}
	return files
}

// restored checks what a restore gives back.
func (m *carrier) restored(content []byte) {
	m.Helper()
	m.succeeds(restore())
	got, err := os.ReadFile(m.path("restored"))
	if err != nil || !bytes.Equal(got, content) {
		m.Fatalf("%d bytes of %d came back, or others: %v", len(got), len(content), err)
	}
	if err := os.Remove(m.path("done")); err != nil {
		m.Fatal(err)
	}
}

func (m *carrier) manifest() (manifest protocol.Manifest) {
	m.Helper()
	text, err := os.ReadFile(m.kept(protocol.ManifestName))
	if err != nil {
		m.Fatal(err)
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		m.Fatal(err)
	}
	return manifest
}

// has says whether something is at a path.
func has(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
