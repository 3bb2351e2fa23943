// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/store"
)

// patience of a test with a store that is there: longer than any machine takes.
const patience = 2 * time.Minute

// server is the folder of a server's data, with the log that a test puts there.
type server struct {
	*testing.T
	Data
	archiver *Archiver
	root     string
}

func newServer(t *testing.T, place, system string) *server {
	t.Helper()
	s := &server{T: t, root: t.TempDir()}
	s.Data = Data(filepath.Join(s.root, "data"))
	for _, folder := range []string{"data/global", "data/pg_wal/archive_status", "run"} {
		if err := os.MkdirAll(filepath.Join(s.root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var number uint64
	if _, err := fmt.Sscan(system, &number); err != nil {
		t.Fatal(err)
	}
	s.put("global/pg_control", binary.NativeEndian.AppendUint64(nil, number))
	s.put("postmaster.pid", fmt.Appendf(nil, "%d\n/data\n0\n5432\n/run\n*\n0 0\nready   \n", os.Getpid()))
	s.archiver = &Archiver{Archive: archiveAt(t, place), Data: s.Data, Notes: filepath.Join(s.root, "run"), Parallel: 2,
		Patience: patience, Alarm: 25, Log: slog.New(slog.DiscardHandler)}
	return s
}

func archiveAt(t *testing.T, place string) *Archive {
	t.Helper()
	folder, err := store.NewFolder(place)
	if err != nil {
		t.Fatal(err)
	}
	return &Archive{Store: folder}
}

func (s *server) put(name string, content []byte) {
	s.Helper()
	if err := os.WriteFile(s.path(name), content, 0o600); err != nil {
		s.Fatal(err)
	}
}

// content of a segment: some that packs well, some that does not.
func content(seed uint64) []byte {
	data := make([]byte, SegmentBytes)
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = source.Read(data[:1<<20])
	binary.LittleEndian.PutUint64(data, seed)
	return data
}

// segment puts one there, and has the server want it archived, or take it for archived.
func (s *server) segment(timeline, number int64, status string) []byte {
	s.Helper()
	data := content(uint64(1000*timeline + number))
	s.file(SegmentOf(timeline, number).Name, data, status)
	return data
}

func (s *server) file(name string, content []byte, status string) {
	s.Helper()
	s.put("pg_wal/"+name, content)
	s.put("pg_wal/archive_status/"+name+"."+status, nil)
}

func (s *server) keeps(name string) {
	s.Helper()
	if err := s.archiver.Keep(s.Context(), name); err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	status := s.path("pg_wal/archive_status", name)
	if err := os.Rename(status+".ready", status+".done"); err != nil {
		s.Fatal(err)
	}
}

// wants are the files that the server wants archived.
func (s *server) wants() string {
	s.Helper()
	files, err := s.waiting()
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func restorer(t *testing.T, place string) *Restorer {
	t.Helper()
	a := archiveAt(t, place)
	lineage, err := a.LineageOf(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Restorer{Archive: a, Lineage: lineage, Cache: filepath.Join(t.TempDir(), "next"), Parallel: 4,
		Patience: patience, Log: slog.New(slog.DiscardHandler)}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]File{
		"00000001000000000000000A":                 {Kind: Segment, Timeline: 1, Number: 10},
		"0000000200000001000000FF":                 {Kind: Segment, Timeline: 2, Number: 511},
		"0000000200000001000000FF.partial":         {Kind: Partial, Timeline: 2, Number: 511},
		"0000000200000001000000FF.00000028.backup": {Kind: Backup, Timeline: 2, Number: 511},
		"0000000A.history":                         {Kind: History, Timeline: 10},
	} {
		want.Name = name
		if got, err := Parse(name); err != nil || got != want {
			t.Errorf("%s is %+v, %v", name, got, err)
		}
		if want.Kind == Segment && SegmentOf(want.Timeline, want.Number).Name != name {
			t.Errorf("%s is called %s", name, SegmentOf(want.Timeline, want.Number).Name)
		}
	}
	for _, name := range []string{"", "../00000001000000000000000A", "00000001000000000000000a", "RECOVERYXLOG",
		"00000001.history.x", "00000001000000000000000A.done"} {
		if got, err := Parse(name); err == nil {
			t.Errorf("%q is %+v", name, got)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	packed, _, err := pack(strings.NewReader(strings.Repeat("log", 1000)), map[int64]int64{2: 7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add(packed[:len(packed)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		sum, err := unpack(bytes.NewReader(data), &out)
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Fatalf("a broken object is none: %v", err)
			}
			return
		}
		if has, _ := SumOf(bytes.NewReader(out.Bytes())); !has.same(sum) {
			t.Fatalf("%v was taken for %v", has, sum)
		}
	})
}

// TestEachBitOfAnObject is looked at: what was changed is never given to a server.
func TestEachBitOfAnObject(t *testing.T) {
	packed, sum, err := pack(bytes.NewReader(content(1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(packed) > 2<<20 {
		t.Errorf("1 MiB of noise and 15 MiB of nothing take %d bytes", len(packed))
	}
	for range 40 {
		broken := slices.Clone(packed)
		at := rand.IntN(len(broken))
		broken[at] ^= 1 << rand.IntN(8)
		var out bytes.Buffer
		got, err := unpack(bytes.NewReader(broken), &out)
		// What the sum is padded with says nothing.
		if err == nil && (!got.same(sum) || !bytes.Equal(out.Bytes(), content(1))) {
			t.Errorf("with another byte %d it is taken for whole", at)
		}
	}
	for _, length := range []int{0, 3, 100, 300, len(packed) / 2, len(packed) - 1} {
		if _, err := unpack(bytes.NewReader(packed[:length]), &bytes.Buffer{}); !errors.Is(err, errCorrupt) {
			t.Errorf("the first %d bytes: %v", length, err)
		}
	}
}

// TestAnArchive gives back what was kept, once, and nothing else.
func TestAnArchive(t *testing.T) {
	place := t.TempDir()
	s := newServer(t, place, "7000000000000000001")
	want := s.segment(1, 5, "ready")
	name := SegmentOf(1, 5).Name
	s.keeps(name)
	s.file(name+".00000028.backup", []byte("START WAL LOCATION"), "ready")
	s.keeps(name + ".00000028.backup")
	// The server forgets that it was kept, and asks again.
	s.segment(1, 5, "ready")
	s.keeps(name)
	path := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	if err := restorer(t, place).Restore(t.Context(), name, path); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
		t.Error("what comes back is not what was kept")
	}
	// Another content under the same name.
	s.file(name, content(77), "ready")
	if err := s.archiver.Keep(t.Context(), name); err == nil || !strings.Contains(err.Error(), "has another "+name) {
		t.Errorf("it says %v", err)
	}
	if state := s.archiver.state(); !strings.Contains(state.Reason, "two servers write to one place") {
		t.Errorf("it is noted as %q", state.Reason)
	}
	// Another system.
	other := newServer(t, place, "7000000000000000002")
	other.segment(1, 5, "ready")
	if err := other.archiver.Keep(t.Context(), name); err == nil ||
		!strings.Contains(err.Error(), "is of system 7000000000000000001, and this is system 7000000000000000002") {
		t.Errorf("it says %v", err)
	}
	if err := archiveAt(t, place).Belongs(t.Context(), Identity{System: "7000000000000000002"}); err == nil {
		t.Error("the archive of another system is restored")
	}
	// Half a segment.
	s.file(SegmentOf(1, 6).Name, []byte("half"), "ready")
	s.archiver.Patience = 3 * time.Second
	if err := s.archiver.Keep(t.Context(), SegmentOf(1, 6).Name); err == nil ||
		!strings.Contains(err.Error(), "has 4 bytes") {
		t.Errorf("it says %v", err)
	}
}

// TestSeveralAhead are kept with the one that the server asks for, and answered from a note as long as they are what
// was kept.
func TestSeveralAhead(t *testing.T) {
	place := t.TempDir()
	s := newServer(t, place, "1")
	for number := range int64(6) {
		s.segment(1, 1+number, "ready")
	}
	s.keeps(SegmentOf(1, 1).Name)
	has, err := archiveAt(t, place).After(t.Context(), Timeline{Number: 1}, -1, 100)
	if err != nil || fmt.Sprint(has) != "[1 2 3 4]" {
		t.Fatalf("the archive has %v, %v", has, err)
	}
	// The note is enough: nobody asks the store.
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	s.keeps(SegmentOf(1, 2).Name)
	s.put("pg_wal/"+SegmentOf(1, 3).Name, content(99))
	s.archiver.Patience = 100 * time.Millisecond
	if err := s.archiver.Keep(t.Context(), SegmentOf(1, 3).Name); err == nil {
		t.Error("a note about another content was enough")
	}
	if err := os.Rename(place+".away", place); err != nil {
		t.Fatal(err)
	}
	s.archiver.Patience = patience
	if err := s.archiver.Keep(t.Context(), SegmentOf(1, 3).Name); err == nil ||
		!strings.Contains(err.Error(), "has another") {
		t.Errorf("it says %v", err)
	}
	s.segment(1, 3, "ready")
	for number := int64(3); number <= 6; number++ {
		s.keeps(SegmentOf(1, number).Name)
	}
	if left, _ := filepath.Glob(filepath.Join(s.root, "run", notesFolder, "*")); len(left) > 0 {
		s.segment(1, 7, "ready")
		s.keeps(SegmentOf(1, 7).Name)
		if left, _ := filepath.Glob(filepath.Join(s.root, "run", notesFolder, "*")); len(left) > 0 {
			t.Errorf("notes that nobody asks for are left: %v", left)
		}
	}
}

// TestAStoreThatIsAway is asked again until it is back, or the server stops.
func TestAStoreThatIsAway(t *testing.T) {
	place := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, place, "1")
	name := SegmentOf(1, 1).Name
	s.segment(1, 1, "ready")
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	s.archiver.Patience = 100 * time.Millisecond
	if err := s.archiver.Keep(t.Context(), name); err == nil {
		t.Fatal("it was kept nowhere")
	}
	state := s.archiver.state()
	if state.Reason == "" || state.FailingSince.IsZero() || state.Waiting != 1 {
		t.Errorf("it is noted as %+v", state)
	}
	since := state.FailingSince
	// It comes back while somebody waits.
	s.archiver.Patience = patience
	time.AfterFunc(500*time.Millisecond, func() { _ = os.Rename(place+".away", place) })
	s.keeps(name)
	if state := s.archiver.state(); state.Reason != "" || !state.FailingSince.IsZero() || state.LastFile != name ||
		state.Waiting != 0 {
		t.Errorf("it is noted as %+v, after a failure at %v", state, since)
	}
	s.segment(1, 2, "ready")
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	s.put("postmaster.pid", fmt.Appendf(nil, "%d\n/data\n0\n5432\n/run\n*\n0 0\nstopping\n", os.Getpid()))
	// A server that stops waits less than its patience, which is longer than the test may take.
	s.archiver.Patience = time.Hour
	if err := s.archiver.Keep(t.Context(), SegmentOf(1, 2).Name); !errors.Is(err, ErrStops) {
		t.Errorf("a server that stops gets %v", err)
	}
	if state := s.archiver.state(); state.Reason != "" {
		t.Errorf("that is noted as %q", state.Reason)
	}
}

// TestAPromotion has what the primary before did not come to archived, and tells two timelines of one number apart.
func TestAPromotion(t *testing.T) {
	place := t.TempDir()
	old := newServer(t, place, "1")
	for number := int64(1); number <= 3; number++ {
		old.segment(1, number, "ready")
		old.keeps(SegmentOf(1, number).Name)
	}
	promoted := func(timeline, term int64) *server {
		s := newServer(t, place, "1")
		s.put("zeroinfra.timelines", fmt.Appendf(nil, "%d %d\n", timeline, term))
		for number := int64(3); number <= 5; number++ {
			s.segment(1, number, "done")
		}
		s.file(SegmentOf(1, 6).Name+".partial", content(6), "ready")
		s.segment(timeline, 6, "ready")
		s.file(fmt.Sprintf("%08X.history", timeline), []byte("1\t0/6000100\tno recovery target specified\n"), "ready")
		return s
	}
	s := promoted(2, 5)
	s.keeps("00000002.history")
	want := []string{SegmentOf(1, 4).Name, SegmentOf(1, 5).Name, SegmentOf(1, 6).Name + ".partial", SegmentOf(2, 6).Name}
	if got := s.wants(); got != strings.Join(want, " ") {
		t.Fatalf("the server archives %s", got)
	}
	for name := range strings.FieldsSeq(s.wants()) {
		s.keeps(name)
	}
	// The same number in another term.
	again := promoted(2, 6)
	again.file(SegmentOf(2, 6).Name, content(4711), "ready")
	again.keeps("00000002.history")
	again.keeps(SegmentOf(2, 6).Name)
	r := restorer(t, place)
	if fmt.Sprint(r.Lineage.Timelines) != "[00000001-0 00000002-6]" {
		t.Errorf("the latest is %v", r.Lineage.Timelines)
	}
	path := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	if err := r.Restore(t.Context(), SegmentOf(2, 6).Name, path); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, content(4711)) {
		t.Error("the log of another timeline comes back")
	}
	for _, name := range []string{SegmentOf(1, 6).Name, SegmentOf(2, 7).Name, "00000003.history"} {
		if err := r.Restore(t.Context(), name, path); !errors.Is(err, ErrEnd) {
			t.Errorf("%s: %v", name, err)
		}
	}
	named := Timeline{2, 5}
	lineage, err := r.Archive.LineageOf(t.Context(), &named)
	if err != nil || fmt.Sprint(lineage.Timelines) != "[00000001-0 00000002-5]" {
		t.Errorf("the one that is named is %v, %v", lineage, err)
	}
	if _, err := r.Archive.LineageOf(t.Context(), &Timeline{4, 4}); err == nil {
		t.Error("a timeline that is not there was taken")
	}
}

// TestWhatNobodyHas is said when a server is promoted, and when it is to be restored.
func TestWhatNobodyHas(t *testing.T) {
	place := t.TempDir()
	old := newServer(t, place, "1")
	for number := int64(1); number <= 3; number++ {
		old.segment(1, number, "ready")
		old.keeps(SegmentOf(1, number).Name)
	}
	s := newServer(t, place, "1")
	s.put("zeroinfra.timelines", []byte("2 5\n"))
	s.segment(1, 30, "done")
	s.file("00000002.history", []byte("1\t0/1F000100\tno recovery target specified\n"), "ready")
	s.keeps("00000002.history")
	if state := s.archiver.state(); !strings.Contains(state.Gap, "segments "+SegmentOf(1, 4).Name+" to "+
		SegmentOf(1, 29).Name) {
		t.Errorf("it is noted as %q", state.Gap)
	}
	s.keeps(SegmentOf(1, 30).Name)
	r := restorer(t, place)
	path := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	if err := r.Restore(t.Context(), SegmentOf(1, 4).Name, path); !errors.As(err, new(store.Refused)) ||
		!strings.Contains(err.Error(), "which goes on with "+SegmentOf(1, 30).Name) {
		t.Errorf("it says %v", err)
	}
	// The last of a timeline that another one goes on from.
	if err := os.Remove(filepath.Join(place, object(Timeline{Number: 1}, SegmentOf(1, 30)))); err != nil {
		t.Fatal(err)
	}
	if err := r.Restore(t.Context(), SegmentOf(1, 30).Name, path); !errors.As(err, new(store.Refused)) ||
		!strings.Contains(err.Error(), "timeline 1 goes on to") {
		t.Errorf("it says %v", err)
	}
}

// TestTheEnd is told from what is under way, from a gap, from what is broken and from a store that is away.
func TestTheEnd(t *testing.T) {
	place := t.TempDir()
	s := newServer(t, place, "1")
	s.archiver.Parallel = 1
	for _, number := range []int64{1, 2, 3, 4, 5, 6, 8, 40} {
		s.segment(1, number, "ready")
		s.keeps(SegmentOf(1, number).Name)
	}
	r := restorer(t, place)
	path := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	for number := int64(1); number <= 6; number++ {
		if err := r.Restore(t.Context(), SegmentOf(1, number).Name, path); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, content(uint64(1000+number))) {
			t.Errorf("%d is not what was kept", number)
		}
	}
	if err := r.Restore(t.Context(), SegmentOf(1, 7).Name, path); !errors.As(err, new(store.Refused)) ||
		!strings.Contains(err.Error(), "which goes on with "+SegmentOf(1, 8).Name) {
		t.Errorf("a gap: %v", err)
	}
	if err := r.Restore(t.Context(), SegmentOf(1, 41).Name, path); !errors.Is(err, ErrEnd) {
		t.Errorf("the end: %v", err)
	}
	// The server keeps 8 and 9 before 7.
	if err := os.Remove(filepath.Join(place, object(Timeline{Number: 1}, SegmentOf(1, 40)))); err != nil {
		t.Fatal(err)
	}
	s.segment(1, 7, "ready")
	kept := make(chan struct{})
	time.AfterFunc(defaultSettling/3, func() {
		defer close(kept)
		_ = s.archiver.Keep(context.Background(), SegmentOf(1, 7).Name)
	})
	r.Settling = patience
	if err := r.Restore(t.Context(), SegmentOf(1, 7).Name, path); err != nil {
		t.Errorf("what was under way: %v", err)
	}
	<-kept
	// What is broken.
	victim := filepath.Join(place, object(Timeline{Number: 1}, SegmentOf(1, 2)))
	data, err := os.ReadFile(victim)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(victim, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Restore(t.Context(), SegmentOf(1, 2).Name, path); !errors.As(err, new(store.Refused)) ||
		!strings.Contains(err.Error(), "is broken") {
		t.Errorf("what is broken: %v", err)
	}
	if err := os.Rename(place, place+".away"); err != nil {
		t.Fatal(err)
	}
	r.Patience = 100 * time.Millisecond
	for _, name := range []string{SegmentOf(1, 41).Name, "00000002.history"} {
		r.Lineage.Timelines = append(r.Lineage.Timelines, Timeline{2, 2})
		if err := r.Restore(t.Context(), name, path); err == nil || errors.Is(err, ErrEnd) {
			t.Errorf("without the store: %v", err)
		}
	}
}
