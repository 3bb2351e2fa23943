// SPDX-License-Identifier: Apache-2.0

// Package command runs the few host programs that images are made with.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Command is one run of a host program.
type Command struct {
	// Name is looked up in PATH.
	Name string
	Args []string
	// Dir is the working folder; empty means that of this process.
	Dir string
	// Env is added to the environment of this process. LC_ALL=C is always set, so that output can be parsed.
	Env []string
	// Hint tells how to get the program when PATH has none.
	Hint string
}

// Output runs c and returns what it wrote to standard output.
// The error holds what it wrote to standard error, or to standard output when there is nothing else.
func (c Command) Output(ctx context.Context) ([]byte, error) {
	path, err := exec.LookPath(c.Name)
	if err != nil {
		return nil, fmt.Errorf("cannot find program %q: %s", c.Name, c.Hint)
	}
	cmd := exec.CommandContext(ctx, path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), c.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said := stderr.String()
		if strings.TrimSpace(said) == "" {
			said = string(out)
		}
		return nil, fmt.Errorf("%s %s: %w\n%s", c.Name, firstWord(c.Args), err, tail(said))
	}
	return out, err
}

func firstWord(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// tail keeps messages of long-winded programs readable.
func tail(text string) string {
	const most = 30
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return strings.Join(lines, "\n")
}
