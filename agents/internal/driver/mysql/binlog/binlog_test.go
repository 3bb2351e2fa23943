// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/agents/internal/store"
)

const (
	a = "00000000-0000-0000-0000-00000000000a"
	b = "00000000-0000-0000-0000-00000000000b"
)

// set reads a set in which UUIDs are a and b.
func set(t *testing.T, text string) Set {
	t.Helper()
	s, err := ParseSet(strings.NewReplacer("a:", a+":", "b:", b+":").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// short is a set with those names.
func short(s Set) string { return strings.NewReplacer(a, "a", b, "b").Replace(s.String()) }

func TestSets(t *testing.T) {
	for _, tc := range []struct{ one, other, union, minus string }{
		{"", "", "", ""},
		{"a:1-5", "", "a:1-5", "a:1-5"},
		{"a:1-5", "a:6", "a:1-6", "a:1-5"},
		{"a:1-9", "a:3-4:7", "a:1-9", "a:1-2:5-6:8-9"},
		{"a:3:1:2,b:4", "b:1-9", "a:1-3,b:1-9", "a:1-3"},
		{"a:1-2:5-9", "a:2-6", "a:1-9", "a:1:7-9"},
	} {
		one, other := set(t, tc.one), set(t, tc.other)
		if got := short(one.Union(other)); got != tc.union {
			t.Errorf("%s with %s is %s, want %s", tc.one, tc.other, got, tc.union)
		}
		if got := short(one.Minus(other)); got != tc.minus {
			t.Errorf("%s without %s is %s, want %s", tc.one, tc.other, got, tc.minus)
		}
		if got := one.Within(other); got != (tc.minus == "") {
			t.Errorf("%s within %s: %t", tc.one, tc.other, got)
		}
	}
	if s := set(t, "a:2-4:9"); s.Has(a, 1) || !s.Has(a, 2) || !s.Has(a, 4) || s.Has(a, 8) || s.Has(b, 2) {
		t.Errorf("%s has others", s)
	}
	for _, text := range []string{"x:1", a, a + ":", a + ":0", a + ":5-3", a + ":tag:1", a + ":1-"} {
		if _, err := ParseSet(text); err == nil {
			t.Errorf("%q is a set", text)
		}
	}
}

// t0 is the time of second 0 below.
var t0 = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// logged is a log such as "x a:1-3 a:4-7 20 14": its name, what was before it, what is in it, when it was closed, and
// when the first of its transactions was, which is then as well where nothing is said.
func logged(t *testing.T, text string) log {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(text, "none", ","))
	at := func(word string) time.Time {
		var seconds int
		if _, err := fmt.Sscan(word, &seconds); err != nil {
			t.Fatal(err)
		}
		return t0.Add(time.Duration(seconds) * time.Second)
	}
	return log{Entry{Name: words[0], First: at(words[len(words)-1]), Closed: at(words[3])}, set(t, words[1]),
		set(t, words[2])}
}

// What is replayed goes on from the backup without a gap, and nothing is replayed twice.
func TestChain(t *testing.T) {
	for name, tc := range map[string]struct {
		base  string
		until int
		logs  []string
		want  string
	}{
		"one log after the other":  {"a:1-3", 25, []string{"y a:1-7 a:8-9 30", "x a:1-3 a:4-7 20"}, "x y"},
		"not more than are needed": {"a:1-3", 20, []string{"x a:1-3 a:4-7 20", "y a:1-7 a:8-9 30"}, "x"},
		"a log that began before":  {"a:1-5", 20, []string{"x a:1-3 a:4-7 20"}, "x"},
		"logs that the backup has": {"a:1-7", 25, []string{"x a:1-3 a:4-7 20", "y a:1-7 a:8-9 30"}, "y"},
		"the backup alone":         {"a:1-7", 15, []string{"x a:1-3 a:4-7 20"}, ""},
		"of a new primary":         {"a:1-3", 35, []string{"x a:1-3 a:4-6 20", "z a:1-5 a:6-9 40"}, "x z"},
		"two servers with one history": {"none", 30, []string{"x none a:1-6 20", "y none a:1-6 21", "z a:1-6 a:7,b:1 30"},
			"x z"},
		// Another one was elected while it took itself for the primary.
		"of a primary that was cut off": {"a:1-3", 35, []string{"y a:1-3 a:4-5 38 15", "z a:1-3 a:4-9 40 15"}, "y z"},
		"of one that was cut off, and nothing since": {"a:1-3", 35, []string{"y a:1-3 a:4-5 38 15", "z a:1-5 a:6 50 36"},
			"y"},
		"a time after all logs": {"a:1-3", 35, []string{"x a:1-3 a:4-7 20"},
			"refused: 2026-11-29T10:00:35Z cannot be reached: what is archived goes up to 2026-11-29T10:00:20Z"},
		"no log": {"a:1-3", 35, nil, "refused: 2026-11-29T10:00:35Z cannot be reached: the archive has no log that goes on " +
			"from the backup"},
		"a gap": {"a:1-3", 35, []string{"x a:1-3 a:4-7 20", "z a:1-9 a:10 40"},
			"refused: 2026-11-29T10:00:35Z cannot be reached: what is archived goes up to 2026-11-29T10:00:20Z; there are " +
				"later logs, and the archive lacks the transactions a:8-9 before those"},
		"a gap after the backup": {"a:1-3", 35, []string{"z a:1-9 a:10 40"},
			"refused: 2026-11-29T10:00:35Z cannot be reached: the archive has no log that goes on from the backup; there are " +
				"later logs, and the archive lacks the transactions a:4-9 before those"},
	} {
		var logs []log
		for _, text := range tc.logs {
			logs = append(logs, logged(t, text))
		}
		steps, err := chain(logs, set(t, strings.ReplaceAll(tc.base, "none", "")),
			t0.Add(time.Duration(tc.until)*time.Second))
		var names []string
		for _, s := range steps {
			names = append(names, s.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = "refused: " + strings.ReplaceAll(err.Error(), a, "a")
		}
		if got != tc.want || err != nil && !errors.As(err, new(pointintime.OutOfRange)) {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// written is a log with a header, no transactions before it, and events by type and body.
func written(events ...[]byte) string {
	format := make([]byte, formatHeader+1+checksumBytes)
	all := [][]byte{made(eventFormat, format), made(eventPreviousGTIDs, make([]byte, 8))}
	text := string(magic)
	for _, e := range append(all, events...) {
		text += string(e)
	}
	return text
}

func made(kind byte, body []byte) []byte {
	header := make([]byte, headerBytes)
	binary.LittleEndian.PutUint32(header, 1_800_000_000)
	header[4] = kind
	binary.LittleEndian.PutUint32(header[9:], uint32(headerBytes+len(body)))
	return append(header, body...)
}

// committing is a GTID event of transaction 7 of b, committed here, and elsewhere where that is another time.
func committing(here, elsewhere uint64) []byte {
	body := make([]byte, gtidFixed+gtidLogicalClock, gtidFixed+gtidLogicalClock+2*timestampBytes)
	body[uuidBytes] = 0x0b
	body[1+uuidBytes] = 7
	if here != elsewhere {
		here |= timestampHasTwo
	}
	for _, at := range []uint64{here, elsewhere} {
		body = append(body, binary.LittleEndian.AppendUint64(nil, at)[:timestampBytes]...)
	}
	return made(eventGTID, body)
}

func TestScan(t *testing.T) {
	var got []string
	text := written(committing(5_000_001, 5_000_001), made(30, []byte("rows")), committing(9_000_000, 6_000_002),
		made(eventRotate, nil))
	head, closed, err := Scan(strings.NewReader(text), func(t Transaction) error {
		got = append(got, fmt.Sprintf("%s:%d at %d, foreign %t", short(Set{t.UUID: nil}), t.Number, t.Committed.UnixMicro(),
			t.Foreign))
		if begins := text[t.Offset+4]; begins != eventGTID {
			return fmt.Errorf("an event of type %d is at %d", begins, t.Offset)
		}
		return nil
	})
	if err != nil || closed.Unix() != 1_800_000_000 || !head.Began.Equal(closed) {
		t.Errorf("got %+v, closed at %s, %v", head, closed, err)
	}
	if want := []string{"b:7 at 5000001, foreign false", "b:7 at 6000002, foreign true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScanOfWhatIsNoLog(t *testing.T) {
	whole := written(committing(5, 5))
	for want, text := range map[string]string{
		"no beginning":         "\xfe",
		"is encrypted":         string(magicEncrypted),
		"is no binary log":     "PK\x03\x04",
		"description":          string(magic),
		"unexpected EOF":       whole[:len(whole)-1],
		"with tags":            written(made(eventTaggedGTID, nil)),
		"without GTIDs":        written(made(eventAnonymousGTID, nil)),
		"older than MySQL 8.0": written(made(eventGTID, make([]byte, gtidFixed))),
	} {
		if _, _, err := Scan(strings.NewReader(text), func(Transaction) error { return nil }); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// FuzzScan: whatever is read, it ends.
func FuzzScan(f *testing.F) {
	f.Add([]byte(written(committing(5, 5), made(eventRotate, nil))))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _, _ = Scan(strings.NewReader(string(text)), func(Transaction) error { return nil })
	})
}

// tired is a store that reads so many objects, and fails then.
type tired struct {
	store.Store
	left atomic.Int64
}

var errTired = errors.New("it took too long")

func (s *tired) Head(ctx context.Context, name string, count int) ([]byte, error) {
	if s.left.Add(-1) < 0 {
		return nil, errTired
	}
	return s.Store.Head(ctx, name, count)
}

// An archive that takes longer to read than there is time for is read on from where that ended.
func TestLearningGoesOn(t *testing.T) {
	folder, err := store.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const logs = 3*entriesAtOnce + 1
	for i := range logs {
		text := fmt.Sprintf(`{"format":1,"name":"x/%03d","transactions":"%s:%d"}`, i, a, i+1)
		if err := folder.Put(t.Context(), fmt.Sprintf("%s/x/%03d%s", logsFolder, i, entryName), strings.NewReader(text),
			int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	s, archiver := &tired{Store: folder}, &Archiver{}
	attempts := 0
	for err = errTired; errors.Is(err, errTired) && attempts < logs; attempts++ {
		s.left.Store(entriesAtOnce + 1)
		if err = archiver.learn(t.Context(), &Archive{s}, "number"); err != nil && archiver.kept != nil {
			t.Errorf("after %d attempts it takes a part for all: %s", attempts+1, archiver.kept)
		}
	}
	if want := fmt.Sprintf("%s:1-%d", a, logs); err != nil || attempts != 3 || archiver.kept.String() != want ||
		archiver.id != "number" {
		t.Errorf("after %d attempts it has %s of %q, %v; want %s", attempts, archiver.kept, archiver.id, err, want)
	}
}
