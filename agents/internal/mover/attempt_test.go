// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// newTestMover has a folder for a repository.
func newTestMover(t *testing.T) *Mover {
	t.Helper()
	folder, err := store.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	return &Mover{Options: Options{PartSize: 1000, Log: log, Now: time.Now},
		repository: store.Patient{Repository: folder, Patience: store.Patience{Answer: time.Minute, Log: log}}}
}

// attemptOf begins one.
func attemptOf(t *testing.T, m *Mover, name string) *attempt {
	t.Helper()
	a := m.newAttempt(&mover.Plan{Verb: mover.VerbBackup, Backup: &mover.Backup{Key: key, Attempt: name}})
	if err := a.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// carried is what an attempt has come to when its command has ended well.
func (a *attempt) carried(t *testing.T, data string) *mover.Manifest {
	t.Helper()
	manifest := &mover.Manifest{FormatVersion: 1, Key: key, Compression: mover.CompressionNone, RawSize: int64(len(data)),
		RawSHA256: digestOf([]byte(data))[len("sha256:"):]}
	var err error
	if manifest.Metadata, err = a.keepMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	up := a.uploader(t.Context(), &pace{})
	defer up.close()
	if _, err = io.WriteString(up, data); err == nil {
		manifest.Parts, err = up.end()
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// data that the backup gives back.
func (m *Mover) data(t *testing.T) string {
	t.Helper()
	manifest, _, err := m.find(t.Context(), &mover.Backup{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	down := m.download(t.Context(), manifest, &pace{})
	defer down.close()
	got, err := io.ReadAll(down)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func ends(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if err == nil || reasonOf(err) != reason {
		t.Errorf("%s: %v", what, err)
	}
}

// TestTheLaterAttemptWins wherever the earlier one stands still for a while.
func TestTheLaterAttemptWins(t *testing.T) {
	long := string(bytes.Repeat([]byte("old "), 1000))
	t.Run("before it looks", func(t *testing.T) {
		m := newTestMover(t)
		first := attemptOf(t, m, "first")
		old := first.carried(t, long)
		second := attemptOf(t, m, "second")
		_, err := first.seal(t.Context(), old)
		ends(t, "the first attempt", first.undo(t.Context(), err), mover.ReasonSuperseded)
		if manifest, _, err := second.complete(t.Context()); err != nil || manifest != nil {
			t.Errorf("it is whole: %+v, %v", manifest, err)
		}
		if _, err := second.seal(t.Context(), second.carried(t, "new")); err != nil || m.data(t) != "new" {
			t.Errorf("the data is not the second attempt's: %v", err)
		}
		for object, err := range m.repository.Objects(t.Context(), key+"/"+first.run) {
			t.Errorf("%s is left, %v", object.Name, err)
		}
	})
	t.Run("between its look and its manifest", func(t *testing.T) {
		m := newTestMover(t)
		first := attemptOf(t, m, "first")
		old := first.carried(t, long)
		second := attemptOf(t, m, "second")
		if err := m.clearRuns(t.Context(), key, second.run, removePacks); err != nil {
			t.Fatal(err)
		}
		renewed := second.carried(t, "new")
		// As if it had looked before.
		second.mark, first.mark = first.mark, second.mark
		_, err := first.seal(t.Context(), old)
		second.mark, first.mark = first.mark, second.mark
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = m.find(t.Context(), &mover.Backup{Key: key})
		ends(t, "a reader before the second attempt has ended", err, mover.ReasonDamaged)
		ends(t, "the first attempt", first.undo(t.Context(), errors.New("nobody knows")), mover.ReasonSuperseded)
		if _, err := second.seal(t.Context(), renewed); err != nil || m.data(t) != "new" {
			t.Errorf("the data is not the second attempt's: %v", err)
		}
	})
	t.Run("after its manifest", func(t *testing.T) {
		m := newTestMover(t)
		first := attemptOf(t, m, "first")
		digest, err := first.seal(t.Context(), first.carried(t, long))
		if err != nil {
			t.Fatal(err)
		}
		second := attemptOf(t, m, "second")
		if manifest, told, err := second.complete(t.Context()); err != nil || manifest == nil || told != digest {
			t.Errorf("it is not taken over: %v", err)
		}
		ends(t, "the first attempt", first.undo(t.Context(), errors.New("nobody knows")), mover.ReasonSuperseded)
		if m.data(t) != long {
			t.Error("what was taken over is not whole")
		}
	})
}

// TestAnAnswerThatWasLost is no other attempt.
func TestAnAnswerThatWasLost(t *testing.T) {
	m := newTestMover(t)
	a := attemptOf(t, m, "first")
	manifest := a.carried(t, "data")
	digest, err := a.seal(t.Context(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.seal(t.Context(), manifest); err != nil || again != digest || m.data(t) != "data" {
		t.Errorf("the second time it is %s, and was %s: %v", again, digest, err)
	}
}

// TestADeletedOneStaysAway, also when its manifest comes late.
func TestADeletedOneStaysAway(t *testing.T) {
	m := newTestMover(t)
	a := attemptOf(t, m, "first")
	manifest := a.carried(t, "data")
	if _, err := m.remove(t.Context(), &mover.Plan{Backup: &mover.Backup{Key: key}}); err != nil {
		t.Fatal(err)
	}
	_, err := a.seal(t.Context(), manifest)
	ends(t, "a deleted one", err, mover.ReasonSuperseded)
	text := bytes.NewReader([]byte("{}"))
	if err := m.repository.Put(t.Context(), a.name(mover.ManifestName), text, text.Size()); err != nil {
		t.Fatal(err)
	}
	a.sealing = true
	ends(t, "a deleted one", a.undo(t.Context(), err), mover.ReasonSuperseded)
	for object, err := range m.repository.Objects(t.Context(), "") {
		t.Errorf("%s is left, %v", object.Name, err)
	}
}
