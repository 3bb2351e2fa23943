// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// maxTail is how many bytes of what a command says last are told, and maxLine how long one line of it is at most.
	maxTail = 1024
	maxLine = 512
	// factsTimeout bounds the command for facts; maxFacts and maxFact how many there are and how long one is.
	factsTimeout      = time.Minute
	maxFacts, maxFact = 16, 128
)

// factLimits bound what a command for facts may say.
type factLimits struct{ most, longest int }

var factsOfOne = factLimits{most: maxFacts, longest: maxFact}

var factForm = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9._-]{0,62})=(.*)$`)

// secrets are texts that nobody is told.
type secrets []string

// secretName is how variables are called that have such.
var secretName = regexp.MustCompile(`(?i)(PASS|SECRET|TOKEN|CREDENTIAL|AUTH|PWD|PRIVATE|ACCESS_?KEY|API_?KEY)`)

// secretsOf an environment, and others.
func secretsOf(env []string, others ...string) secrets {
	hide := secrets(others)
	for _, assignment := range env {
		name, value, _ := strings.Cut(assignment, "=")
		if secretName.MatchString(name) && name != "PWD" && name != "OLDPWD" {
			hide = append(hide, value)
		}
	}
	return hide
}

// from is a text without them. What is too short to be one is left in.
func (s secrets) from(text string) string {
	for _, secret := range s {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

// tool is a command that runs.
type tool struct {
	process *reaper.Process
	// data is the own end of its standard output, or input.
	data *os.File
	said *tail
	name string
	// restores says that it is the command of a restore.
	restores bool
}

// direction is what of a command is the data.
type direction int

const (
	fromOutput direction = iota + 1
	toInput
)

// begin starts a command. It is killed, with all that it has started, when the context ends.
func (m *Mover) begin(ctx context.Context, words []string, which direction) (*tool, error) {
	said, saying, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer saying.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		said.Close()
		return nil, err
	}
	spec := reaper.Spec{Command: words, Env: m.Env, Dir: m.dir, Stderr: saying, Family: reaper.Everyone}
	own, its := reader, writer
	if which == fromOutput {
		spec.Stdout = writer
	} else {
		// What it writes while it reads is for people.
		spec.Stdin, spec.Stdout, own, its = reader, saying, writer, reader
	}
	defer its.Close()
	process, err := m.Starter.Start(spec)
	if err != nil {
		said.Close()
		own.Close()
		return nil, fail(mover.ReasonCommandFailed, "%v", err)
	}
	t := &tool{process: process, data: own, said: follow(said, m), name: words[0], restores: which == toInput}
	stop := context.AfterFunc(ctx, t.kill)
	go func() { <-process.Done(); stop() }()
	return t, nil
}

// kill ends it and its group at once. It must not see the end of its input then.
func (t *tool) kill() { _ = t.process.SignalGroup(syscall.SIGKILL) }

// end waits until it has ended, and says whether well. What a signal ended, ours too, has not.
func (t *tool) end() error {
	exit := t.process.Exit()
	said := t.said.end()
	if exit == (reaper.Exit{}) {
		return nil
	}
	if t.restores && exit.Code == mover.ExitOutOfRange && said != "" {
		// What the programs that it runs say comes before.
		return fail(mover.ReasonOutOfRange, "%s", said[strings.LastIndexByte(said, '\n')+1:])
	}
	return fail(mover.ReasonCommandFailed, "%s ended with %s: %s", t.name, exit, cmp.Or(said, "it said nothing"))
}

// tail keeps the last of what a command says, and puts each line into the log.
type tail struct {
	ended chan struct{}
	mu    sync.Mutex
	text  []byte
}

func follow(from *os.File, m *Mover) *tail {
	t := &tail{ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		defer from.Close()
		lines := bufio.NewReaderSize(from, maxLine)
		for {
			line, _, err := lines.ReadLine()
			if said := m.hide.from(strings.TrimSpace(string(line))); said != "" {
				m.Log.Info("the command says", "text", said)
				t.add(said)
			}
			if err != nil {
				return
			}
		}
	}()
	return t
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text = append(append(t.text, line...), '\n'); len(t.text) > maxTail {
		t.text = append(t.text[:0], t.text[len(t.text)-maxTail:]...)
	}
}

// end is what it has said when all who could say something have ended.
func (t *tail) end() string {
	<-t.ended
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), ""))
}

// facts runs the command for them.
func (m *Mover) facts(ctx context.Context, words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	said, result, err := m.tell(ctx, words, factsOfOne)
	if err == nil && result.Exit != (reaper.Exit{}) {
		return nil, fail(mover.ReasonCommandFailed, "the command for facts ended with %s: %s", result.Exit,
			lastOf(result.Stderr))
	}
	return said, err
}

// tell runs a command that tells facts. Where it does not end with 0 there are none, and the result says how it ended.
func (m *Mover) tell(ctx context.Context, words []string,
	limits factLimits) (map[string]string, command.Result, error) {
	result, err := command.Run(ctx, m.Starter, command.Spec{Command: words, Env: m.Env, Timeout: factsTimeout})
	switch {
	case ctx.Err() != nil:
		return nil, result, context.Cause(ctx)
	case err != nil:
		return nil, result, fail(mover.ReasonCommandFailed, "the command for facts: %v", err)
	case result.Exit != (reaper.Exit{}):
		return nil, result, nil
	}
	facts, err := readFacts(result.Stdout, limits)
	return facts, result, err
}

// lastOf is the end of what a command said.
func lastOf(said string) string {
	said = strings.TrimSpace(said)
	return said[max(0, len(said)-maxTail):]
}

// readFacts reads lines of key=value.
func readFacts(text string, limits factLimits) (map[string]string, error) {
	facts := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		found := factForm.FindStringSubmatch(line)
		if found == nil || len(found[2]) > limits.longest {
			return nil, fail(mover.ReasonCommandFailed,
				"the command for facts wrote the line %q, which is no key=value of %d characters at most", shortened(line, maxFact),
				limits.longest)
		}
		if facts[found[1]] = found[2]; len(facts) > limits.most {
			return nil, fail(mover.ReasonCommandFailed, "the command for facts wrote more than %d", limits.most)
		}
	}
	return facts, nil
}

// feed gives data to a command's input. Where that is closed before the end the rest is read all the same, to be
// checked, unless the command has failed.
func (t *tool) feed(from io.Reader) error {
	buffer, unread := make([]byte, 256<<10), false
	for {
		n, err := from.Read(buffer)
		if n > 0 && !unread {
			if _, err := t.data.Write(buffer[:n]); errors.Is(err, syscall.EPIPE) {
				unread = true
			} else if err != nil {
				return fmt.Errorf("cannot write to %s: %w", t.name, err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case unread && t.hasFailed():
			return nil
		}
	}
}

// hasFailed says whether it has ended, and not well.
func (t *tool) hasFailed() bool {
	select {
	case <-t.process.Done():
		return t.process.Exit() != reaper.Exit{}
	default:
		return false
	}
}
