// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/zeroinfra/agents/internal/listenaddress"
	"github.com/zeroinfra/agents/internal/modelfile"
)

// File is one that a server is started with.
type File struct {
	// Source of the file; nil where Path is there already.
	Source modelfile.Source
	// Place tells one source from another, without secrets.
	Place string
	// Path of a file that somebody else keeps.
	Path string
	// Wanted is what the file must be.
	Wanted modelfile.Wanted
}

// Adapter is a LoRA adapter, which changes what the model says.
type Adapter struct {
	File
	// Scale by which it does so in requests that name none.
	Scale float64
}

// Starter starts a server.
type Starter struct {
	// Run is the folder that the containers of the pod share.
	Run string
	// Folder that files are downloaded into.
	Folder string
	// Model that is served.
	Model File
	// Adapters of the model, in the order of the numbers that requests call them by.
	Adapters []Adapter
	// Format of all files, such as GGUF; empty where it is not known.
	Format string
	// Command is the server with its arguments, without the model.
	Command []string
	// Log is told of the download.
	Log *slog.Logger
}

// Prepare returns the program with all its arguments, once all files are there and are those that are wanted. It is to
// listen on all addresses of the pod.
func (s *Starter) Prepare(ctx context.Context) ([]string, error) {
	arguments, err := s.prepare(ctx)
	if err != nil {
		return nil, errors.Join(err, s.tell(State{Phase: Failed, Reason: err.Error()}))
	}
	return arguments, nil
}

func (s *Starter) prepare(ctx context.Context) ([]string, error) {
	program, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Folder, 0o755); err != nil {
		return nil, err
	}
	model, err := s.file(ctx, &s.Model, State{})
	if err != nil {
		return nil, fmt.Errorf("the model is not to be had: %w", err)
	}
	arguments := append(append([]string{program}, s.Command[1:]...), "--host", listenaddress.Any(), "--model", model)
	var adapters []string
	for n := range s.Adapters {
		file, err := s.file(ctx, &s.Adapters[n].File, State{Adapter: n + 1, Adapters: len(s.Adapters)})
		if err != nil {
			return nil, fmt.Errorf("adapter %d of %d is not to be had: %w", n+1, len(s.Adapters), err)
		}
		adapters = append(adapters, file+":"+strconv.FormatFloat(s.Adapters[n].Scale, 'f', -1, 64))
	}
	if len(adapters) > 0 {
		// Of a flag that is there twice the last one counts.
		arguments = append(arguments, "--lora-scaled", strings.Join(adapters, ","))
	}
	version, err := versionOf(ctx, program)
	if err != nil {
		return nil, err
	}
	// What was served before is kept until all that is served now is there: whoever goes back downloads nothing.
	if err := s.clean(); err != nil {
		return nil, err
	}
	return arguments, s.tell(State{Phase: Serving, Percent: 100, Version: version})
}

// clean removes all files that are not wanted.
func (s *Starter) clean() error {
	wanted := []modelfile.Wanted{s.Model.Wanted}
	for _, adapter := range s.Adapters {
		wanted = append(wanted, adapter.Wanted)
	}
	return modelfile.KeepOnly(s.Folder, wanted...)
}

func (s *Starter) tell(state State) error {
	f := files{s.Run}
	return f.write(f.state(), state)
}

// file returns where a file is, once it is there and of the format. The state says which one it is.
func (s *Starter) file(ctx context.Context, file *File, now State) (string, error) {
	path, err := s.bring(ctx, file, now)
	if err != nil {
		return "", err
	}
	return path, modelfile.CheckFormat(path, s.Format)
}

// bring returns where a file is, once it is there and has the digest that is wanted.
func (s *Starter) bring(ctx context.Context, file *File, now State) (string, error) {
	if file.Wanted.SHA256 == "" || (file.Source == nil) == (file.Path == "") {
		return "", errors.New("no file is named: set its digest, and one source of it")
	}
	if file.Source == nil {
		return file.Path, s.verify(ctx, file, now)
	}
	if err := s.waits(file); err != nil {
		return "", err
	}
	now.Phase = Downloading
	if err := s.tell(now); err != nil {
		return "", err
	}
	path, err := modelfile.Fetch(ctx, file.Source, s.Folder, file.Wanted, s.progress(now))
	if errors.Is(err, syscall.ENOSPC) {
		// There is no room for both: the files of before make it.
		if err := s.clean(); err != nil {
			return "", err
		}
		path, err = modelfile.Fetch(ctx, file.Source, s.Folder, file.Wanted, s.progress(now))
	}
	return path, s.remember(file, err)
}

// mark is a file that was verified, as it was then.
type mark struct {
	Path, SHA256   string
	Size, Modified int64
}

// verify reads a file, but not again while nothing of it has changed: that takes minutes where it is large.
func (s *Starter) verify(ctx context.Context, file *File, state State) error {
	about, err := os.Stat(file.Path)
	if err != nil {
		return err
	}
	f := files{s.Run}
	now := mark{Path: file.Path, SHA256: file.Wanted.SHA256, Size: about.Size(), Modified: about.ModTime().UnixNano()}
	var verified []mark
	if f.read(f.verified(), &verified) != nil {
		verified = nil
	}
	if slices.Contains(verified, now) {
		return nil
	}
	state.Phase = Verifying
	if err := s.tell(state); err != nil {
		return err
	}
	if err := modelfile.Verify(ctx, file.Path, file.Wanted, s.progress(state)); err != nil {
		return err
	}
	verified = slices.DeleteFunc(verified, func(m mark) bool { return m.Path == now.Path })
	return f.write(f.verified(), append(verified, now))
}

// progress tells of each tenth of a file.
func (s *Starter) progress(now State) modelfile.Progress {
	return func(done, total int64) {
		if total <= 0 {
			return
		}
		percent := int(done*10/total) * 10
		if percent == now.Percent {
			return
		}
		now.Percent = percent
		s.Log.Info("a file is being read", "phase", now.Phase, "adapter", now.Adapter, "percent", percent, "bytes", done)
		if err := s.tell(now); err != nil {
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
