// SPDX-License-Identifier: Apache-2.0

// Package command runs one short command to its end: a probe, a reload. It has a
// deadline, after which its whole process group is killed, and a bound on its output.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/zeroinfra/agents/internal/reaper"
)

// MaxOutput is how many bytes of each of stdout and stderr are kept.
const MaxOutput = 128 << 10

// drainTimeout bounds the wait for output after the process and its group have
// ended: a stray process that left the group can hold the pipe open.
const drainTimeout = 100 * time.Millisecond

// ErrTimeout says that the command was killed at its deadline.
var ErrTimeout = errors.New("killed at its deadline")

// ErrTooMuchOutput says that a command wrote more than MaxOutput.
var ErrTooMuchOutput = fmt.Errorf("wrote more than %d KiB", MaxOutput>>10)

// Starter starts processes; *reaper.Reaper does.
type Starter interface {
	Start(reaper.Spec) (*reaper.Process, error)
}

// Spec is a command to run.
type Spec struct {
	// Command and arguments.
	Command []string
	// Env is the whole environment.
	Env []string
	// Dir is the working directory; the own one when empty.
	Dir string
	// Timeout until the process group is killed.
	Timeout time.Duration
	// Follow, when not nil, gets the output as it comes. It must not block, and is called by several at once.
	Follow func(Stream, []byte)
}

// Stream is one of the two outputs of a command.
type Stream int

// Streams.
const (
	Stdout Stream = iota + 1
	Stderr
)

// follow returns what one of the streams is passed on to.
func (s Spec) follow(stream Stream) io.Writer {
	if s.Follow == nil {
		return io.Discard
	}
	return followed{stream, s.Follow}
}

// followed passes on what is written.
type followed struct {
	stream Stream
	to     func(Stream, []byte)
}

// Write implements io.Writer.
func (f followed) Write(data []byte) (int, error) {
	f.to(f.stream, data)
	return len(data), nil
}

// Result is what a command that ran to its end did.
type Result struct {
	Stdout, Stderr string
	Exit           reaper.Exit
}

// Run runs the command. The error is ErrTimeout at the deadline, the context's
// cause when that ended first, ErrTooMuchOutput, or says why the command could not
// be started; a command that fails by itself is no error but a Result.
func Run(ctx context.Context, starter Starter, spec Spec) (Result, error) {
	stdout, err := newCapture()
	if err != nil {
		return Result{}, err
	}
	defer stdout.close()
	stderr, err := newCapture()
	if err != nil {
		return Result{}, err
	}
	defer stderr.close()
	p, err := starter.Start(reaper.Spec{Command: spec.Command, Env: spec.Env, Dir: spec.Dir, Stdout: stdout.writer,
		Stderr: stderr.writer})
	if err != nil {
		return Result{}, err
	}
	stdout.begin(spec.follow(Stdout))
	stderr.begin(spec.follow(Stderr))

	ctx, cancel := context.WithTimeoutCause(ctx, spec.Timeout, fmt.Errorf("%w of %v", ErrTimeout, spec.Timeout))
	defer cancel()
	select {
	case <-p.Done():
	case <-ctx.Done():
		if err := p.SignalGroup(syscall.SIGKILL); err != nil && !errors.Is(err, reaper.ErrEnded) {
			return Result{}, err
		}
		<-p.Done()
		return Result{}, context.Cause(ctx)
	}
	result := Result{Exit: p.Exit()}
	var outErr, errErr error
	result.Stdout, outErr = stdout.end()
	result.Stderr, errErr = stderr.end()
	return result, errors.Join(outErr, errErr)
}

// capture keeps the first MaxOutput bytes that are written to a pipe and drops the rest, so that the writer never
// blocks.
type capture struct {
	reader, writer *os.File
	finished       chan struct{}
	data           []byte
	dropped        int64
}

func newCapture() (*capture, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	return &capture{reader: reader, writer: writer, finished: make(chan struct{})}, nil
}

// begin reads in the background until the last writer is gone.
func (c *capture) begin(to io.Writer) {
	c.writer.Close()
	go func() {
		defer close(c.finished)
		// A read error is the deadline that end sets, or nothing that could be mended: what came so far counts.
		c.data, _ = io.ReadAll(io.TeeReader(io.LimitReader(c.reader, MaxOutput), to))
		c.dropped, _ = io.Copy(io.Discard, c.reader)
	}()
}

// end returns the output; the process has ended.
func (c *capture) end() (string, error) {
	if err := c.reader.SetReadDeadline(time.Now().Add(drainTimeout)); err != nil {
		return "", fmt.Errorf("cannot read the output: %w", err)
	}
	<-c.finished
	if c.dropped > 0 {
		return "", ErrTooMuchOutput
	}
	return string(c.data), nil
}

func (c *capture) close() {
	c.writer.Close()
	c.reader.Close()
}
