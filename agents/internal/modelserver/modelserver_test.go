// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/zeroinfra/agents/internal/listenaddress"
	"github.com/zeroinfra/agents/internal/modelfile"
)

const weights = "weights"

func digest() string {
	sum := sha256.Sum256([]byte(weights))
	return hex.EncodeToString(sum[:])
}

// program is a server that says its version.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho 'version: 0.7.0 (build 11669)' >&2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartFetchesTheFile(t *testing.T) {
	from := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(weights)) }))
	t.Cleanup(from.Close)
	folder, server := t.TempDir(), program(t)
	s := &Starter{Run: t.TempDir(), Folder: folder,
		Model:   File{Source: modelfile.HTTP{URL: from.URL}, Wanted: modelfile.Wanted{SHA256: digest()}},
		Command: []string{server, "--metrics"}, Log: slog.New(slog.DiscardHandler)}
	got, err := s.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{server, "--metrics", "--host", listenaddress.Any(), "--model",
		filepath.Join(folder, digest())}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var state State
	f := files{s.Run}
	if err := f.read(f.state(), &state); err != nil || state.Phase != Serving || state.Version != "0.7.0" {
		t.Errorf("state %+v, %v", state, err)
	}
}

func TestStartTellsWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(file, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Starter{Run: t.TempDir(), Folder: t.TempDir(), Command: []string{program(t)},
		Model: File{Path: file, Wanted: modelfile.Wanted{SHA256: digest()}}, Log: slog.New(slog.DiscardHandler)}
	if _, err := s.Prepare(t.Context()); !errors.As(err, new(modelfile.WrongDigest)) {
		t.Errorf("got %v", err)
	}
	probe := &Probe{Run: s.Run}
	_, err := probe.Check(t.Context())
	var waits NotReady
	if !errors.As(err, &waits) || waits.Code != ExitFailed || !strings.Contains(waits.Why, "and "+digest()+" is wanted") {
		t.Errorf("the probe says %v", err)
	}
	// The file is mended, and then not read again.
	if err := os.WriteFile(file, []byte(weights), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prepare(t.Context()); err != nil {
		t.Error(err)
	}
	var verified []mark
	f := files{s.Run}
	if err := f.read(f.verified(), &verified); err != nil || len(verified) != 1 || verified[0].Path != file {
		t.Errorf("verified %+v, %v", verified, err)
	}
}

// counted is a source that counts how often it is read.
type counted struct {
	text   string
	opened int
}

// Open implements modelfile.Source.
func (c *counted) Open(context.Context, int64) (modelfile.Content, error) {
	c.opened++
	return modelfile.Content{ReadCloser: io.NopCloser(strings.NewReader(c.text)), Size: int64(len(c.text))}, nil
}

// A file that was downloaded in vain is downloaded again after pauses that grow; until then each start says why.
func TestStartDoesNotDownloadAnotherFileWithoutEnd(t *testing.T) {
	source := &counted{text: "others"}
	s := &Starter{Run: t.TempDir(), Folder: t.TempDir(), Command: []string{program(t)},
		Log:   slog.New(slog.DiscardHandler),
		Model: File{Source: source, Place: "library", Wanted: modelfile.Wanted{SHA256: digest()}}}
	says := digest() + " is wanted; it is downloaded again at "
	synctest.Test(t, func(t *testing.T) {
		for n, minutes := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			for _, pause := range []time.Duration{minutes*time.Minute - time.Second, time.Second} {
				_, err := s.Prepare(t.Context())
				if err == nil || source.opened != n+1 || !strings.Contains(err.Error(), says) {
					t.Fatalf("after %d downloads, not %d, got %v", source.opened, n+1, err)
				}
				time.Sleep(pause)
			}
		}
		// Another place, and another version, do not wait.
		s.Model.Place = "another library"
		if _, err := s.Prepare(t.Context()); !errors.As(err, new(modelfile.WrongDigest)) || source.opened != 9 {
			t.Errorf("after %d downloads got %v", source.opened, err)
		}
		source.text = weights
		time.Sleep(time.Hour)
		if _, err := s.Prepare(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if left := s.inVain(); len(left) != 1 || left[0].Place != "library" || left[0].Downloads != 8 {
		t.Errorf("it remembers %+v", left)
	}
}

// Adapters come from sources of their own, and are the arguments of one flag in their order.
func TestStartWithAdapters(t *testing.T) {
	from := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) }))
	t.Cleanup(from.Close)
	folder, server, kept := t.TempDir(), program(t), filepath.Join(t.TempDir(), "kept.gguf")
	if err := os.WriteFile(kept, []byte(weights), 0o600); err != nil {
		t.Fatal(err)
	}
	served := func(path string) File {
		sum := sha256.Sum256([]byte(path))
		return File{Source: modelfile.HTTP{URL: from.URL + path},
			Wanted: modelfile.Wanted{SHA256: hex.EncodeToString(sum[:])}}
	}
	s := &Starter{Run: t.TempDir(), Folder: folder, Model: served("/base"), Command: []string{server},
		Log: slog.New(slog.DiscardHandler), Adapters: []Adapter{{File: served("/first"), Scale: 1},
			{File: File{Path: kept, Wanted: modelfile.Wanted{SHA256: digest()}}, Scale: 0.25}}}
	got, err := s.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{server, "--host", listenaddress.Any(), "--model", filepath.Join(folder, s.Model.Wanted.SHA256),
		"--lora-scaled", filepath.Join(folder, s.Adapters[0].Wanted.SHA256) + ":1," + kept + ":0.25"}; !slices.Equal(
		got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// Without the adapter its file goes, and that of the model stays.
	from.Close()
	s.Adapters = s.Adapters[1:]
	if got, err = s.Prepare(t.Context()); err != nil || got[len(got)-1] != kept+":0.25" {
		t.Errorf("got %q, %v", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) != 1 {
		t.Errorf("%q is left", left)
	}
	s.Format = "GGUF"
	if _, err := s.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), `not with "GGUF"`) {
		t.Errorf("got %v", err)
	}
	s.Format, s.Adapters[0].Wanted.SHA256 = "", s.Model.Wanted.SHA256
	if _, err := s.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "adapter 1 of 1 is not to be had") {
		t.Errorf("got %v", err)
	}
}

// full is a source of which the disk takes nothing until the file of before is gone.
type full struct {
	modelfile.Source
	before string
}

// Open implements modelfile.Source.
func (f full) Open(ctx context.Context, offset int64) (modelfile.Content, error) {
	content, err := f.Source.Open(ctx, offset)
	if _, there := os.Stat(f.before); err == nil && there == nil {
		content.ReadCloser = io.NopCloser(iotest.ErrReader(syscall.ENOSPC))
	}
	return content, err
}

// The file of before goes once the new one is there, or where there is no room for both.
func TestStartKeepsTheFileOfBefore(t *testing.T) {
	from := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(weights)) }))
	t.Cleanup(from.Close)
	folder := t.TempDir()
	before := filepath.Join(folder, strings.Repeat("a", 64))
	write := func() {
		t.Helper()
		if err := os.WriteFile(before, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want ...string) {
		t.Helper()
		if got, _ := filepath.Glob(filepath.Join(folder, "*")); !slices.Equal(got, want) {
			t.Errorf("%q is left, want %q", got, want)
		}
	}
	write()
	source := modelfile.HTTP{URL: from.URL}
	s := &Starter{Run: t.TempDir(), Folder: folder, Command: []string{program(t)}, Log: slog.New(slog.DiscardHandler),
		Model: File{Source: source, Wanted: modelfile.Wanted{SHA256: strings.Repeat("b", 64)}}}
	if _, err := s.Prepare(t.Context()); !errors.As(err, new(modelfile.WrongDigest)) {
		t.Errorf("got %v", err)
	}
	left(before)
	now := filepath.Join(folder, digest())
	for _, source := range []modelfile.Source{source, full{source, before}} {
		s.Model = File{Source: source, Wanted: modelfile.Wanted{SHA256: digest()}}
		if _, err := s.Prepare(t.Context()); err != nil {
			t.Error(err)
		}
		left(now)
		if err := os.Remove(now); err != nil {
			t.Error(err)
		}
		write()
	}
}

// asked is a server that notes what it is asked for.
type asked struct {
	*httptest.Server
	paths  []string
	status int
}

func listen(t *testing.T) *asked {
	t.Helper()
	a := &asked{status: http.StatusOK}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.paths = append(a.paths, r.URL.Path)
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(a.status)
	}))
	t.Cleanup(a.Close)
	return a
}

func TestProbeAsksForACompletion(t *testing.T) {
	a, f := listen(t), files{t.TempDir()}
	p := &Probe{Run: f.folder, Address: a.Listener.Addr().String(), Path: "/health", Timeout: time.Minute, Key: "k"}
	check := func(ready bool, paths ...string) {
		t.Helper()
		a.paths = nil
		version, err := p.Check(t.Context())
		if (err == nil) != ready || ready && version != "0.7.0" || !slices.Equal(a.paths, paths) {
			t.Errorf("got %q, %v; asked for %q, want %q", version, err, a.paths, paths)
		}
	}
	check(false)
	if err := f.write(f.state(), State{Phase: Serving, Version: "0.7.0"}); err != nil {
		t.Fatal(err)
	}
	a.status = http.StatusServiceUnavailable
	check(false, "/health")
	a.status = http.StatusOK
	check(true, "/health", "/completion")
	p.PathAlone = true
	check(true, "/health")
	p.Key = ""
	check(false, "/health")
}

func TestProbeTellsTenthsOfADownload(t *testing.T) {
	f := files{t.TempDir()}
	for state, want := range map[State]NotReady{
		{Phase: Downloading}:                          {20, "the model is being downloaded: 0 %"},
		{Phase: Downloading, Percent: 40}:             {24, "the model is being downloaded: 40 %"},
		{Phase: Downloading, Percent: 100}:            {30, "the model is being downloaded: 100 %"},
		{Phase: Verifying, Percent: 100}:              {19, "the digest of the model is being verified: 100 %"},
		{Phase: Downloading, Adapter: 1, Adapters: 2}: {40, "adapter 1 of 2 is being downloaded: 0 %"},
		{Phase: Verifying, Percent: 100, Adapter: MaxAdapters, Adapters: MaxAdapters}: {116,
			"the digest of adapter 7 of 7 is being verified: 100 %"},
	} {
		if err := f.write(f.state(), state); err != nil {
			t.Fatal(err)
		}
		_, err := (&Probe{Run: f.folder}).Check(t.Context())
		if waits, is := errors.AsType[NotReady](err); !is || waits != want {
			t.Errorf("of %+v it says %v, want %+v", state, err, want)
		}
	}
}
