// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// archivedUpTo is a place where the first primary has archived its segments up to one.
func archivedUpTo(t *testing.T, last int64) (place string) {
	t.Helper()
	place = filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, place, "1")
	for number := int64(1); number <= last; number++ {
		s.segment(1, number, "ready")
		s.keeps(SegmentOf(1, number).Name)
	}
	return place
}

// history of a timeline, with the ones before it and where they were left.
func (s *server) history(timeline int64, left, status string) {
	s.Helper()
	s.file(fmt.Sprintf("%08X.history", timeline), []byte(left), status)
}

// followed has segments there that it takes for archived.
func (s *server) followed(timeline, first, last int64) {
	s.Helper()
	for number := first; number <= last; number++ {
		s.segment(timeline, number, "done")
	}
}

// keepsAll keeps what the server wants archived until it wants nothing.
func (s *server) keepsAll() {
	s.Helper()
	for next, _, _ := strings.Cut(s.wants(), " "); next != ""; next, _, _ = strings.Cut(s.wants(), " ") {
		s.keeps(next)
	}
}

func names(files ...string) string { return strings.Join(files, " ") }

// restores compares what comes back with what was written.
func restores(t *testing.T, r *Restorer, timeline, first, last int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	for number := first; number <= last; number++ {
		name := SegmentOf(timeline, number).Name
		if err := r.Restore(t.Context(), name, path); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got, _ := os.ReadFile(path); !bytes.Equal(got, content(uint64(1000*timeline+number))) {
			t.Errorf("%s is not what was written", name)
		}
	}
}

const (
	leftOnce  = "1\t0/6000100\tno recovery target specified\n"
	leftTwice = leftOnce + "2\t0/8000100\tno recovery target specified\n"
)

// TestTwoServersLeaveOneSegment, each with another end of it: the second one goes on archiving.
func TestTwoServersLeaveOneSegment(t *testing.T) {
	place := archivedUpTo(t, 5)
	partial := SegmentOf(1, 6).Name + ".partial"
	for term, seed := range map[int64]uint64{5: 61, 6: 62} {
		s := newServer(t, place, "1")
		s.put("zeroinfra.timelines", fmt.Appendf(nil, "2 %d\n", term))
		s.history(2, leftOnce, "ready")
		s.file(partial, content(seed), "ready")
		s.segment(2, 6, "ready")
		s.keepsAll()
		if state := s.archiver.state(); state.Reason != "" || state.LastFile != SegmentOf(2, 6).Name {
			t.Errorf("in term %d it is noted as %+v", term, state)
		}
	}
	restores(t, restorer(t, place), 2, 6, 6)
}

// TestAPromotionWithoutTheStore wants archived what only this server may have before anybody has asked the store, and
// gives back what that has once it is there.
func TestAPromotionWithoutTheStore(t *testing.T) {
	place := archivedUpTo(t, 3)
	s := newServer(t, place, "1")
	s.archiver.Patience = 100 * time.Millisecond
	s.put("zeroinfra.timelines", []byte("2 5\n"))
	s.followed(1, 3, 5)
	// What it left in the middle, and what it would have written next.
	s.followed(1, 6, 7)
	s.segment(2, 6, "ready")
	s.history(2, leftOnce, "ready")
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	if err := s.archiver.Keep(t.Context(), "00000002.history"); err == nil {
		t.Fatal("it was kept nowhere")
	}
	if got, want := s.wants(), names("00000002.history", SegmentOf(1, 3).Name, SegmentOf(1, 4).Name, SegmentOf(1, 5).Name,
		SegmentOf(2, 6).Name); got != want {
		t.Errorf("without the store the server wants archived\n%s, not\n%s", got, want)
	}
	if err := os.Rename(place+".away", place); err != nil {
		t.Fatal(err)
	}
	s.archiver.Patience = patience
	s.keeps("00000002.history")
	if got, want := s.wants(), names(SegmentOf(1, 4).Name, SegmentOf(1, 5).Name, SegmentOf(2, 6).Name); got != want {
		t.Errorf("with the store the server wants archived\n%s, not\n%s", got, want)
	}
	s.keepsAll()
	r := restorer(t, place)
	restores(t, r, 1, 1, 5)
	restores(t, r, 2, 6, 6)
	if gap := s.archiver.state().Gap; gap != "" {
		t.Errorf("there is a gap: %s", gap)
	}
}

// TestAnOlderHistoryWaits of a server that was the primary before, and never came to the store: what came after that is
// recalled as well.
func TestAnOlderHistoryWaits(t *testing.T) {
	place := archivedUpTo(t, 5)
	s := newServer(t, place, "1")
	s.put("zeroinfra.timelines", []byte("2 5\n3 6\n4 7\n"))
	s.segment(2, 6, "ready")
	s.segment(2, 7, "ready")
	s.followed(3, 8, 9)
	s.history(2, leftOnce, "ready")
	s.history(3, leftTwice, "done")
	s.history(4, leftTwice+"3\t0/A000100\tno recovery target specified\n", "ready")
	if err := s.Recall("00000002.history"); err != nil {
		t.Fatal(err)
	}
	want := names("00000002.history", "00000003.history", "00000004.history", SegmentOf(2, 6).Name, SegmentOf(2, 7).Name,
		SegmentOf(3, 8).Name, SegmentOf(3, 9).Name)
	if got := s.wants(); got != want {
		t.Errorf("the server wants archived\n%s, not\n%s", got, want)
	}
	s.keepsAll()
	r := restorer(t, place)
	restores(t, r, 2, 6, 7)
	restores(t, r, 3, 8, 9)
	// A segment has nothing recalled.
	if err := s.Recall(SegmentOf(4, 10).Name); err != nil || s.wants() != "" {
		t.Errorf("for a segment the server wants archived %q, %v", s.wants(), err)
	}
}

// TestTwoPromotions in a row, of which the first one's primary archived nothing: all that it and the one before it did
// not come to is archived by the second.
func TestTwoPromotions(t *testing.T) {
	place := archivedUpTo(t, 3)
	s := newServer(t, place, "1")
	s.put("zeroinfra.timelines", []byte("2 5\n3 6\n"))
	s.followed(1, 3, 6)
	s.followed(2, 6, 8)
	s.segment(3, 8, "ready")
	s.history(2, leftOnce, "done")
	s.history(3, leftTwice, "ready")
	s.keeps("00000003.history")
	want := names("00000002.history", SegmentOf(1, 4).Name, SegmentOf(1, 5).Name, SegmentOf(2, 6).Name,
		SegmentOf(2, 7).Name, SegmentOf(3, 8).Name)
	if got := s.wants(); got != want {
		t.Fatalf("the server wants archived\n%s, not\n%s", got, want)
	}
	s.keepsAll()
	if state := s.archiver.state(); state.Gap != "" || state.Reason != "" {
		t.Errorf("it is noted as %+v", state)
	}
	r := restorer(t, place)
	if fmt.Sprint(r.Lineage.Timelines) != "[00000001-0 00000002-5 00000003-6]" {
		t.Errorf("the latest is %v", r.Lineage.Timelines)
	}
	restores(t, r, 1, 1, 5)
	restores(t, r, 2, 6, 7)
	restores(t, r, 3, 8, 8)
	// A server that recovers finds the third timeline by way of the second.
	if err := r.Restore(t.Context(), "00000002.history", filepath.Join(t.TempDir(), "RECOVERYHISTORY")); err != nil {
		t.Errorf("the history between: %v", err)
	}
	// The next one has none of that, and needs none.
	next := newServer(t, place, "1")
	next.put("zeroinfra.timelines", []byte("2 5\n3 6\n4 7\n"))
	next.history(2, leftOnce, "done")
	next.history(3, leftTwice, "done")
	next.history(4, leftTwice+"3\t0/8000200\tno recovery target specified\n", "ready")
	next.keeps("00000004.history")
	if got, gap := next.wants(), next.archiver.state().Gap; got != "" || gap != "" {
		t.Errorf("the next server wants archived %q, and the gap is %q", got, gap)
	}
}

// TestGapsOfSeveralTimelines are said, each one by its timeline, and those of an archive that was made later are none.
func TestGapsOfSeveralTimelines(t *testing.T) {
	between := func(timeline, first, last int64) string {
		return SegmentOf(timeline, first).Name + " to " + SegmentOf(timeline, last).Name
	}
	const rest = " were never archived by the primary before, and this server has them no more"
	// What the server has of the first timeline begins with one segment, and of the second one with the other.
	for name, c := range map[string]struct {
		archived, first, second int64
		gap                     string
	}{
		"it has all":                        {3, 4, 6, ""},
		"one of the first timeline is gone": {3, 5, 6, between(1, 4, 4)},
		"the first timeline is gone":        {3, 6, 6, between(1, 4, 5)},
		"some of the second timeline, too":  {3, 6, 7, between(1, 4, 5) + ", " + between(2, 6, 6)},
		"the second timeline alone is gone": {5, 6, 8, between(2, 6, 7)},
		"the archive was made later":        {0, 5, 6, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, archivedUpTo(t, c.archived), "1")
			s.put("zeroinfra.timelines", []byte("2 5\n3 6\n"))
			s.followed(1, c.first, 5)
			s.followed(2, c.second, 7)
			s.history(2, leftOnce, "done")
			s.history(3, leftTwice, "ready")
			want := ""
			if c.gap != "" {
				want = "segments " + c.gap + rest
			}
			s.keeps("00000003.history")
			if gap := s.archiver.state().Gap; gap != want {
				t.Errorf("it is noted as %q, and not as %q", gap, want)
			}
			// The history between is asked for next, and changes nothing of that.
			s.keepsAll()
			if gap := s.archiver.state().Gap; gap != want {
				t.Errorf("after all else it is noted as %q, and not as %q", gap, want)
			}
		})
	}
}
