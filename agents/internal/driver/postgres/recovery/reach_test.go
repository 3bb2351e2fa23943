// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/agents/internal/store"
)

// A transaction that fills more segments than are looked through is no proof that there was none before it.
func TestLastTransactionIsLookedForSoFar(t *testing.T) {
	folder, err := store.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	timeline := wal.Timeline{Number: 1}
	r := &Reach{Archive: &wal.Archive{Store: folder}, Programs: t.TempDir(), Work: t.TempDir()}
	lineage := &wal.Lineage{Timelines: []wal.Timeline{timeline}}
	empty := make([]byte, wal.SegmentBytes)
	keep := func(number int64) {
		t.Helper()
		_, err := r.Archive.Keep(t.Context(), timeline, wal.SegmentOf(1, number), bytes.NewReader(empty), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	// It stands for the server's program: segment 1 alone has the end of a transaction.
	script := "#!/bin/sh\ncase $2 in */" + wal.SegmentOf(1, 1).Name +
		") echo 'desc: COMMIT 2026-01-02 03:04:05.6 UTC' ;; esac\n"
	if err := os.WriteFile(filepath.Join(r.Programs, "pg_waldump"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for number := range int64(lookedAt) {
		keep(number + 2)
	}
	if at, err := r.last(t.Context(), lineage); err != nil || !at.IsZero() {
		t.Errorf("of an archive without any it is %v, %v", at, err)
	}
	keep(1)
	if at, err := r.last(t.Context(), lineage); !errors.Is(err, errNotFound) {
		t.Errorf("of one that is out of sight it is %v, %v", at, err)
	}
	lineage.Ends = map[int64]int64{1: lookedAt}
	if at, err := r.last(t.Context(), lineage); err != nil ||
		!at.Equal(time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)) {
		t.Errorf("of one that is in sight it is %v, %v", at, err)
	}
}
