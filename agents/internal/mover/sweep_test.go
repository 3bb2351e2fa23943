// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// keeps has files in the repository of a test.
func (m *Mover) keeps(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := m.repository.Replace(t.Context(), name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
}

// has are the files of a folder.
func (m *Mover) has(t *testing.T, folder string) (names []string) {
	t.Helper()
	for object, err := range m.repository.Objects(t.Context(), folder) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(object.Name, folder+"/"))
	}
	slices.Sort(names)
	return names
}

// ofObjects is the manifest of a backup that names packs.
func ofObjects(name string, packs ...string) string {
	manifest := &mover.Manifest{FormatVersion: mover.ObjectsFormatVersion, Key: "shop/media/" + name,
		Compression: mover.CompressionZstd, RawSize: 10, RawSHA256: sum,
		Metadata: mover.Part{Name: run + "/metadata.json", Size: 2, SHA256: sum},
		Parts:    []mover.Part{{Name: run + "/data-00001", Size: 5, SHA256: sum}}, Objects: &mover.ObjectsManifest{}}
	for _, pack := range packs {
		manifest.Objects.Packs = append(manifest.Objects.Packs, mover.Part{Name: pack, Size: 1, SHA256: sum})
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// withPacks has two backups, of which the second needs a pack of the first.
func withPacks(t *testing.T) *Mover {
	t.Helper()
	m := newTestMover(t)
	first, second := "a-1/"+run+"/pack-00001", "a-1/"+run+"/pack-00002"
	own := "b-2/" + run + "/pack-00001"
	m.keeps(t, map[string]string{
		"shop/media/a-1/attempt.json": "{}", "shop/media/a-1/manifest.json": ofObjects("a-1", first, second),
		"shop/media/a-1/" + run + "/metadata.json": "{}",
		"shop/media/a-1/" + run + "/data-00001":    "12345", "shop/media/" + first: "x", "shop/media/" + second: "x",
		"shop/media/b-2/attempt.json": "{}", "shop/media/b-2/manifest.json": ofObjects("b-2", second, own),
		"shop/media/b-2/" + run + "/metadata.json": "{}",
		"shop/media/b-2/" + run + "/data-00001":    "12345", "shop/media/" + own: "x",
	})
	return m
}

func (m *Mover) removes(t *testing.T, name string) {
	t.Helper()
	if _, err := m.remove(t.Context(), &mover.Plan{Backup: &mover.Backup{Key: "shop/media/" + name}}); err != nil {
		t.Fatal(err)
	}
}

// A backup that is deleted leaves what others need, and these take it with them.
func TestPacksThatOthersNeedStay(t *testing.T) {
	m := withPacks(t)
	for range 2 {
		m.removes(t, "a-1")
		if got := m.has(t, "shop/media/a-1"); !slices.Equal(got, []string{run + "/pack-00002"}) {
			t.Errorf("left are %v", got)
		}
	}
	if _, _, err := m.find(t.Context(), &mover.Backup{Key: "shop/media/b-2"}); err != nil {
		t.Error(err)
	}
	found, err := m.list(t.Context(), nil)
	if err != nil || !slices.Equal(found.Backups, []string{"shop/media/b-2"}) || len(found.Leftovers) > 0 ||
		found.KeptBytes == 0 {
		t.Errorf("the list is %+v, %v", found, err)
	}
	m.removes(t, "b-2")
	if got := m.has(t, ""); len(got) > 0 {
		t.Errorf("left are %v", got)
	}
}

// While a backup may be under way nothing goes that it may name. Whoever comes after it sees to the rest.
func TestPacksStayWhileABackupIsMade(t *testing.T) {
	m := withPacks(t)
	m.keeps(t, map[string]string{"shop/media/c-3/attempt.json": `{"attempt":"x","run":"x"}`})
	m.removes(t, "a-1")
	if got := m.has(t, "shop/media/a-1"); len(got) != 2 {
		t.Errorf("left are %v", got)
	}
	m.removes(t, "c-3")
	if got := m.has(t, "shop/media/a-1"); !slices.Equal(got, []string{run + "/pack-00002"}) {
		t.Errorf("left are %v", got)
	}
}

// What a manifest needs that cannot be read nobody knows.
func TestPacksStayWhereAManifestCannotBeRead(t *testing.T) {
	m := withPacks(t)
	m.keeps(t, map[string]string{"shop/media/b-2/manifest.json": `{"formatVersion":99}`})
	m.removes(t, "a-1")
	if got := m.has(t, "shop/media/a-1"); len(got) != 2 {
		t.Errorf("left are %v", got)
	}
}

// What is missing is noticed before anything is restored, and named.
func TestAPackThatIsMissing(t *testing.T) {
	m := withPacks(t)
	if err := m.repository.Remove(t.Context(), "shop/media/a-1/"+run+"/pack-00002"); err != nil {
		t.Fatal(err)
	}
	_, _, err := m.find(t.Context(), &mover.Backup{Key: "shop/media/b-2"})
	if err == nil || reasonOf(err) != mover.ReasonDamaged || !strings.Contains(err.Error(), "pack-00002") {
		t.Errorf("it says %v", err)
	}
}

func TestManifestsOfObjects(t *testing.T) {
	for what, packs := range map[string][]string{
		"another place":  {"../x/" + run + "/pack-00001"},
		"another order":  {"b/" + run + "/pack-00001", "a/" + run + "/pack-00001"},
		"one pack twice": {"a/" + run + "/pack-00001", "a/" + run + "/pack-00001"},
		"no pack":        {"a/" + run + "/data-00001"},
	} {
		if _, err := readManifest([]byte(ofObjects("a-1", packs...)), "shop/media/a-1"); err == nil ||
			reasonOf(err) != mover.ReasonDamaged {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Whatever is another one about an object, it is not the one that is known.
func TestIdentities(t *testing.T) {
	is := mover.Entry{Bucket: "b", Key: "k", ETag: "e", Version: "v", Size: 1, Modified: time.Unix(1, 0),
		Tags: map[string]string{"a": "b"}}
	k := &known{all: []identity{identityOf(&is)}, seen: make([]bool, 1)}
	for what, change := range map[string]func(*mover.Entry){
		"bucket": func(e *mover.Entry) { e.Bucket = "c" }, "key": func(e *mover.Entry) { e.Key = "l" },
		"ETag":    func(e *mover.Entry) { e.ETag = "f" },
		"version": func(e *mover.Entry) { e.Version = "" }, "size": func(e *mover.Entry) { e.Size = 2 },
		"time":   func(e *mover.Entry) { e.Modified = time.Unix(1, 1) },
		"tags":   func(e *mover.Entry) { e.Tags = map[string]string{"a": "c"} },
		"border": func(e *mover.Entry) { e.Bucket, e.Key = "bk", "" },
	} {
		other := is
		other.Tags = maps.Clone(is.Tags)
		change(&other)
		if k.see(&other) || k.saw(&is) {
			t.Errorf("another %s is known", what)
		}
	}
	if !k.see(&is) || !k.saw(&is) {
		t.Error("it is not known")
	}
}
