// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/store"
)

func put(ctx context.Context, s store.Store, name string, content []byte) error {
	return s.Put(ctx, name, bytes.NewReader(content), int64(len(content)))
}

func read(t *testing.T, s store.Store, name string) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return data
}

func list(t *testing.T, s store.Store, folder, after string) []string {
	t.Helper()
	var names []string
	for name, err := range s.List(t.Context(), folder, after) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// contract is what every store keeps to.
func contract(t *testing.T, s store.Store) {
	ctx := t.Context()
	large := make([]byte, 17<<20)
	if _, err := rand.Read(large); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"a/1.x": []byte("one"), "a/b/2": []byte("two"), "a/b/3": large,
		"ab/4": {}} {
		if err := put(ctx, s, name, content); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(read(t, s, name), content) {
			t.Errorf("%s is not what was kept", name)
		}
		if err := put(ctx, s, name, []byte("other")); !errors.Is(err, store.ErrExists) {
			t.Errorf("%s a second time: %v", name, err)
		}
		if !bytes.Equal(read(t, s, name), content) {
			t.Errorf("%s was written over", name)
		}
	}
	if head, err := s.Head(ctx, "a/b/3", 100); err != nil || !bytes.Equal(head, large[:100]) {
		t.Errorf("the head has %d bytes, %v", len(head), err)
	}
	if head, err := s.Head(ctx, "a/1.x", 100); err != nil || string(head) != "one" {
		t.Errorf("the head is %q, %v", head, err)
	}
	if _, err := s.Open(ctx, "a/none"); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := s.Head(ctx, "a/none", 10); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("the head of what is not there: %v", err)
	}
	for _, name := range []string{"../x", "/x", "a//b", "a/../b", "", ".x", "a/", "ä"} {
		if err := put(ctx, s, name, nil); err == nil {
			t.Errorf("%q was taken for a name", name)
		}
	}
	if got := list(t, s, "a", ""); !slices.Equal(got, []string{"a/1.x", "a/b/2", "a/b/3"}) {
		t.Errorf("there are %v", got)
	}
	if got := list(t, s, "a", "a/b/2"); !slices.Equal(got, []string{"a/b/3"}) {
		t.Errorf("after a/b/2 there are %v", got)
	}
	if got := list(t, s, "none", ""); len(got) != 0 {
		t.Errorf("in no folder there are %v", got)
	}
	onlyOne(t, s)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := put(ended, s, "late", large); err == nil {
		t.Error("what was given up was kept")
	}
	if got := list(t, s, "late", ""); len(got) != 0 {
		t.Errorf("half of it is there: %v", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, s store.Repository, name string) store.Upload {
	t.Helper()
	upload, err := s.Begin(t.Context(), name)
	must(t, err)
	return upload
}

// objects are the names beneath a folder, with their sizes.
func objects(t *testing.T, s store.Repository, folder string) (found []string) {
	t.Helper()
	for object, err := range s.Objects(t.Context(), folder) {
		must(t, err)
		found = append(found, fmt.Sprintf("%s:%d", object.Name, object.Size))
	}
	return found
}

// repository is what every one keeps to besides.
func repository(t *testing.T, s store.Repository) {
	ctx := t.Context()
	large := make([]byte, 2*store.PieceSize+5)
	if _, err := rand.Read(large); err != nil {
		t.Fatal(err)
	}
	// In any order, and one a second time.
	whole := begin(t, s, "k/x/large")
	for _, number := range []int{3, 1, 2, 1} {
		must(t, whole.Send(ctx, number, large[(number-1)*store.PieceSize:min(number*store.PieceSize, len(large))]))
	}
	if got := objects(t, s, "k/x"); len(got) > 0 {
		t.Errorf("before it is whole there are %v", got)
	}
	must(t, whole.Finish(ctx))
	if !bytes.Equal(read(t, s, "k/x/large"), large) {
		t.Error("what came in pieces is not what was sent")
	}
	if got, err := s.ReadRange(ctx, "k/x/large", store.PieceSize-3, 7); err != nil ||
		!bytes.Equal(got, large[store.PieceSize-3:store.PieceSize+4]) {
		t.Errorf("a range has %d bytes, %v", len(got), err)
	}
	for _, offset := range []int64{int64(len(large)) - 3, int64(len(large)) + 3} {
		if _, err := s.ReadRange(ctx, "k/x/large", offset, 7); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("beyond its end: %v", err)
		}
	}
	if _, err := s.ReadRange(ctx, "k/x/none", 0, 7); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("of what is not there: %v", err)
	}
	for _, content := range []string{"one", "other"} {
		must(t, s.Replace(ctx, "k/mark", []byte(content)))
		if got := read(t, s, "k/mark"); string(got) != content {
			t.Errorf("in place of another there is %q", got)
		}
	}
	removals(t, s, len(large))
}

// removals take what they name and nothing else. There is a large object of some bytes.
func removals(t *testing.T, s store.Repository, size int) {
	ctx, some := t.Context(), []byte("ten bytes.")
	for _, left := range []string{"k/y/1", "k/y/2", "k/z/1"} {
		must(t, begin(t, s, left).Send(ctx, 1, some))
	}
	must(t, s.AbandonOf(ctx, "k/z/1"))
	must(t, s.AbandonOf(ctx, "k/z/none"))
	given := begin(t, s, "k/z/2")
	must(t, given.Send(ctx, 1, some))
	must(t, given.Abandon(ctx))
	must(t, s.Replace(ctx, "k/y/3", nil))
	if got, want := objects(t, s, "k"),
		[]string{"k/mark:5", "k/x/large:" + fmt.Sprint(size), "k/y/3:0"}; !slices.Equal(got, want) {
		t.Errorf("there are %v", got)
	}
	for range 2 {
		must(t, s.Clear(ctx, "k/y"))
		must(t, s.Remove(ctx, "k/mark"))
	}
	if got := objects(t, s, "k"); len(got) != 1 {
		t.Errorf("left are %v", got)
	}
	if got := objects(t, s, ""); !slices.Contains(got, "a/1.x:3") {
		t.Errorf("all are %v", got)
	}
	must(t, s.Clear(ctx, "k"))
	if got := objects(t, s, "k"); len(got) > 0 {
		t.Errorf("left are %v", got)
	}
	for _, name := range []string{"../x", "a/../b", ".x"} {
		if err := s.Replace(ctx, name, nil); err == nil {
			t.Errorf("%q was taken for a name", name)
		}
		if s.Remove(ctx, name) == nil || s.Clear(ctx, name) == nil || s.AbandonOf(ctx, name) == nil {
			t.Errorf("something was removed by the name %q", name)
		}
		if _, err := s.Begin(ctx, name); err == nil {
			t.Errorf("%q was begun", name)
		}
	}
}

// onlyOne of many who keep something else under one name does.
func onlyOne(t *testing.T, s store.Store) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	var won [][]byte
	for i := range 8 {
		all.Go(func() {
			content := bytes.Repeat([]byte{byte('0' + i)}, 1<<20)
			err := put(t.Context(), s, "race", content)
			// A storage that refuses before all has come may end the connection before its answer is read: whoever has none asks
			// again.
			for end := time.Now().Add(2 * time.Minute); err != nil && !errors.Is(err, store.ErrExists) &&
				time.Now().Before(end); {
				err = put(t.Context(), s, "race", content)
			}
			switch {
			case err == nil:
				mu.Lock()
				won = append(won, content)
				mu.Unlock()
			case !errors.Is(err, store.ErrExists):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 || !bytes.Equal(read(t, s, "race"), won[0]) {
		t.Errorf("%d have kept it", len(won))
	}
}

func TestFolder(t *testing.T) {
	root := t.TempDir()
	s, err := store.NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	contract(t, s)
	repository(t, s)
	if _, err := os.Stat(filepath.Join(root, "k")); err == nil {
		t.Error("an empty folder is left")
	}
	left, err := os.ReadDir(filepath.Join(root, ".incoming"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind are %v, %v", left, err)
	}
}

// TestAFolderThatIsNotThere is no empty one.
func TestAFolderThatIsNotThere(t *testing.T) {
	root := filepath.Join(t.TempDir(), "volume")
	if _, err := store.NewFolder(root); err == nil || !strings.Contains(err.Error(), "is its volume mounted?") {
		t.Errorf("it says %v", err)
	}
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := store.NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), s, "a", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(root, root+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "a"); err == nil || errors.Is(err, store.ErrAbsent) {
		t.Errorf("without its volume an object is said to be absent: %v", err)
	}
	if err := put(t.Context(), s, "b/c", []byte("two")); err == nil || errors.Is(err, store.ErrExists) {
		t.Errorf("without its volume something is kept: %v", err)
	}
	if _, err := os.Lstat(root); err == nil {
		t.Error("a folder was made in place of the volume")
	}
	for _, err := range s.List(t.Context(), "a", "") {
		if err == nil {
			t.Error("without its volume a folder is said to be empty")
		}
	}
}

// TestAListLacksNothingButWhatIsRemoved while it is made.
func TestAListLacksNothingButWhatIsRemoved(t *testing.T) {
	root := t.TempDir()
	s, err := store.NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app/b1/data", "app/b2/data", "app/b3/data"} {
		if err := put(t.Context(), s, name, []byte("one")); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for object, err := range s.Objects(t.Context(), "app") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, object.Name)
		if err := os.RemoveAll(filepath.Join(root, "app", "b2")); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"app/b1/data", "app/b3/data"}; !slices.Equal(names, want) {
		t.Errorf("the list has %q, want %q", names, want)
	}
	for object, err := range s.Objects(t.Context(), "none") {
		t.Errorf("a folder that is not there has %q, %v", object.Name, err)
	}
}

// TestWhatWasCutOff is never seen, and goes when nobody can be at it any more.
func TestWhatWasCutOff(t *testing.T) {
	root := t.TempDir()
	if _, err := store.NewFolder(root); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"young": time.Hour, "old": 48 * time.Hour} {
		path := filepath.Join(root, ".incoming", name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.NewFolder(root); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(root, ".incoming", "*"))
	if err != nil || fmt.Sprint(left) != fmt.Sprint([]string{filepath.Join(root, ".incoming", "young")}) {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestEndpointsThatAreNone(t *testing.T) {
	for _, endpoint := range []string{"", "s3.example.com", "ftp://s3.example.com", "https://",
		"https://s3.example.com/bucket"} {
		if _, err := store.NewS3(store.S3Options{Endpoint: endpoint, Bucket: "b"}); !errors.As(err, new(store.Refused)) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
	_, err := store.NewS3(store.S3Options{Endpoint: "https://s3.example.com", Bucket: "b", Addressing: "host"})
	if err == nil {
		t.Error("an unknown addressing style was taken")
	}
	if _, err := store.NewS3(store.S3Options{Endpoint: "https://s3.example.com", Bucket: "b",
		CA: []byte("x")}); err == nil {
		t.Error("a CA that is none was taken")
	}
}
