// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"

	"github.com/zeroinfra/agents/internal/modelfile"
)

// Starter starts a server.
type Starter struct {
	// Run is the folder that the containers of the pod share.
	Run string
	// Source of the file; nil where File is there already.
	Source modelfile.Source
	// Folder that it is downloaded into.
	Folder string
	// File that somebody else keeps.
	File string
	// Wanted is what the file must be.
	Wanted modelfile.Wanted
	// Command is the server with its arguments, without the model.
	Command []string
	// Log is told of the download.
	Log *slog.Logger
}

// Prepare returns the program with all its arguments, once the file is there and is the one that is wanted. It is to
// listen on all addresses of the pod.
func (s *Starter) Prepare(ctx context.Context) ([]string, error) {
	arguments, err := s.prepare(ctx)
	if err != nil {
		return nil, errors.Join(err, s.tell(State{Phase: Failed, Reason: err.Error()}))
	}
	return arguments, nil
}

func (s *Starter) prepare(ctx context.Context) ([]string, error) {
	if s.Wanted.SHA256 == "" || (s.Source == nil) == (s.File == "") {
		return nil, errors.New("no model is named: set its digest, and one source of its file")
	}
	program, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, err
	}
	file, err := s.file(ctx)
	if err != nil {
		return nil, fmt.Errorf("the model is not to be had: %w", err)
	}
	version, err := versionOf(ctx, program)
	if err != nil {
		return nil, err
	}
	if err := s.tell(State{Phase: Serving, Percent: 100, Version: version}); err != nil {
		return nil, err
	}
	return append(append([]string{program}, s.Command[1:]...), "--host", anyAddress(), "--model", file), nil
}

// anyAddress is where a server listens on all addresses, of both families where the pod has the second.
func anyAddress() string {
	listener, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		return "0.0.0.0"
	}
	_ = listener.Close()
	return "::"
}

func (s *Starter) tell(state State) error {
	f := files{s.Run}
	return f.write(f.state(), state)
}

// file returns where the model is.
func (s *Starter) file(ctx context.Context) (string, error) {
	if s.Source != nil {
		if err := s.tell(State{Phase: Downloading}); err != nil {
			return "", err
		}
		return modelfile.Fetch(ctx, s.Source, s.Folder, s.Wanted, s.progress(Downloading))
	}
	return s.File, s.verify(ctx)
}

// mark is a file that was verified, as it was then.
type mark struct {
	Path, SHA256   string
	Size, Modified int64
}

// verify reads the file, but not again while nothing of it has changed: that takes minutes where it is large.
func (s *Starter) verify(ctx context.Context) error {
	about, err := os.Stat(s.File)
	if err != nil {
		return err
	}
	f := files{s.Run}
	now := mark{Path: s.File, SHA256: s.Wanted.SHA256, Size: about.Size(), Modified: about.ModTime().UnixNano()}
	var before mark
	if f.read(f.verified(), &before) == nil && before == now {
		return nil
	}
	if err := s.tell(State{Phase: Verifying}); err != nil {
		return err
	}
	if err := modelfile.Verify(ctx, s.File, s.Wanted, s.progress(Verifying)); err != nil {
		return err
	}
	return f.write(f.verified(), now)
}

// progress tells of each tenth of the file.
func (s *Starter) progress(phase Phase) modelfile.Progress {
	told := 0
	return func(done, total int64) {
		if total <= 0 {
			return
		}
		percent := int(done*10/total) * 10
		if percent == told {
			return
		}
		told = percent
		s.Log.Info("the file of the model is being read", "phase", phase, "percent", percent, "bytes", done)
		if err := s.tell(State{Phase: phase, Percent: percent}); err != nil {
			s.Log.Error("cannot tell the probe how far the file is", "error", err)
		}
	}
}

// versions are what a server says of itself, such as "version: 0.7.0 (build 11669)".
var versions = regexp.MustCompile(`version: ([0-9]+(?:\.[0-9]+)*)`)

// versionOf asks a program for its version.
func versionOf(ctx context.Context, program string) (string, error) {
	said, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot ask %s for its version: %w", program, err)
	}
	found := versions.FindSubmatch(said)
	if found == nil {
		return "", fmt.Errorf("%s does not say its version: %q", program, said)
	}
	return string(found[1]), nil
}
