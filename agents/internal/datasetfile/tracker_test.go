// SPDX-License-Identifier: Apache-2.0

package datasetfile

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/zeroinfra/agents/internal/modelfile"
	"github.com/zeroinfra/platform-core/agentproto/transfer"
)

// A Fetcher tells how much of how much is there while a file is fetched, and the total once it knows all sizes.
func TestProgressOfAFetch(t *testing.T) {
	sizes := map[string]int64{"a": 10, "b": 600_000}
	at := map[string]transfer.Progress{}
	var f *Fetcher
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[1:]
		at[name] = f.Tracker.Progress()
		_, _ = w.Write(make([]byte, sizes[name]))
	}))
	t.Cleanup(server.Close)
	f = &Fetcher{Folder: t.TempDir(), MaxBytes: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Source: func(path string) modelfile.Source { return modelfile.HTTP{URL: server.URL + "/" + path} }}
	m, err := NewManifest([]File{{Path: "a", SHA256: sumOf(make([]byte, 10))},
		{Path: "b", SHA256: sumOf(make([]byte, 600_000)), Size: 600_000}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	at["end"] = f.Tracker.Progress()
	for when, want := range map[string]transfer.Progress{
		"a": {Of: 2}, "b": {Bytes: 10, Total: 600_010, Files: 1, Of: 2},
		"end": {Bytes: 600_010, Total: 600_010, Files: 2, Of: 2},
	} {
		if at[when] != want {
			t.Errorf("%s: got %+v, want %+v", when, at[when], want)
		}
	}
}

// Within a file what is there of it counts, and its size as soon as the source says it.
func TestProgressWithinAFile(t *testing.T) {
	var tracker Tracker
	tracker.begin(Manifest{{Path: "a", Size: 100}, {Path: "b"}})
	tracker.has(0, 100, 100)
	for _, step := range []struct{ done, size, total int64 }{{5, 0, 0}, {10, 300, 400}, {20, 0, 400}} {
		tracker.reading(1, 100, step.done, step.size)
		want := transfer.Progress{Bytes: 100 + step.done, Total: step.total, Files: 1, Of: 2}
		if got := tracker.Progress(); got != want {
			t.Errorf("after %d bytes: got %+v, want %+v", step.done, got, want)
		}
	}
	answer := httptest.NewRecorder()
	tracker.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, transfer.Path, nil))
	said, err := io.ReadAll(answer.Body)
	if want := `{"bytes":120,"total":400,"files":1,"of":2}` + "\n"; err != nil || string(said) != want {
		t.Errorf("it says %q and %v, want %q", said, err, want)
	}
}
