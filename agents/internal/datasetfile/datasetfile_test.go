// SPDX-License-Identifier: Apache-2.0

package datasetfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/modelfile"
)

// contents of the files that all tests are about.
var contents = map[string][]byte{"train/a.csv": bytes.Repeat([]byte("1,2\n"), 50_000), "b c.txt": []byte("text")}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// manifest of the contents.
func manifest(t *testing.T) Manifest {
	t.Helper()
	var files []File
	for path, data := range contents {
		files = append(files, File{Path: path, SHA256: sumOf(data)})
	}
	m, err := NewManifest(files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fetcher of a server with the contents, which cuts off answers from the beginning first, and notes what was asked for.
func fetcher(t *testing.T, cut int) (*Fetcher, *[]string) {
	t.Helper()
	asked := &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Path+" "+r.Header.Get("Range"))
		data, found := contents[strings.TrimPrefix(r.URL.Path, "/")]
		switch {
		case !found:
			http.NotFound(w, r)
		case cut > 0 && r.Header.Get("Range") == "":
			cut--
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			_, _ = w.Write(data[:len(data)/2])
		default:
			http.ServeContent(w, r, "f", time.Time{}, bytes.NewReader(data))
		}
	}))
	t.Cleanup(server.Close)
	return &Fetcher{Folder: t.TempDir(), MaxBytes: 1 << 20, Pause: time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Source: func(path string) modelfile.Source {
			return modelfile.HTTP{URL: server.URL + "/" + strings.ReplaceAll(path, " ", "%20")}
		}}, asked
}

func TestFetchResumesAndFetchesNothingTwice(t *testing.T) {
	f, asked := fetcher(t, 2)
	m := manifest(t)
	first, err := f.Fetch(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	want := Result{Digest: m.Digest(), Files: 2, Bytes: 200_004}
	if first != want {
		t.Errorf("got %+v, want %+v", first, want)
	}
	if got := strings.Join(*asked,
		"\n"); got != "/b c.txt \n/b c.txt bytes=2-\n/train/a.csv \n/train/a.csv bytes=100000-" {
		t.Errorf("asked for %s", got)
	}
	for path, data := range contents {
		if got, _ := os.ReadFile(filepath.Join(f.Folder, path)); !bytes.Equal(got, data) {
			t.Errorf("%s is another", path)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(f.Folder, ManifestPath)); !bytes.Equal(got, m.Text()) {
		t.Errorf("the manifest is %s", got)
	}
	*asked = nil
	if again, err := f.Fetch(t.Context(), m); err != nil || again != want || len(*asked) > 0 {
		t.Errorf("the second time: %+v, %v, asked for %v", again, err, *asked)
	}
	if sealed, err := Seal(t.Context(), f.Folder, f.MaxBytes); err != nil || sealed != want {
		t.Errorf("sealed: %+v, %v", sealed, err)
	}
	if verified, err := Verify(t.Context(), f.Folder, m, f.Log); err != nil || verified != want {
		t.Errorf("verified: %+v, %v", verified, err)
	}
}

func TestFetchRefusesWhatWasNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, f *Fetcher, m Manifest)
		want   string
	}{
		"another digest": {func(_ *testing.T, _ *Fetcher, m Manifest) { m[1].SHA256 = strings.Repeat("0", 64) },
			"file train/a.csv: the file has the SHA-256 digest"},
		"another size": {func(_ *testing.T, _ *Fetcher, m Manifest) { m[1].Size = 7 },
			"200000 bytes at its source, and 7 are wanted"},
		"no such file": {func(_ *testing.T, _ *Fetcher, m Manifest) { m[1].Path = "none" }, "404"},
		"too large":    {func(_ *testing.T, f *Fetcher, _ Manifest) { f.MaxBytes = 1000 }, "larger than its claim"},
		"something beside": {func(t *testing.T, f *Fetcher, _ Manifest) {
			if err := os.WriteFile(filepath.Join(f.Folder, "x"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, `has the file "x", which the manifest does not name`},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := fetcher(t, 0)
			m := manifest(t)
			c.change(t, f, m)
			if _, err := f.Fetch(t.Context(), m); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Of a version that is too large nothing stays on its volume, also where the server says no size; what is not of the
// version does.
func TestFetchKeepsNothingOfWhatDoesNotFit(t *testing.T) {
	m := manifest(t)
	for name, c := range map[string]struct {
		most   int64
		change func(f *Fetcher, m Manifest)
		asked  string
	}{
		"the source says the size": {1000, func(*Fetcher, Manifest) {}, "/b c.txt \n/train/a.csv "},
		"nobody says the size": {1000, func(f *Fetcher, _ Manifest) {
			said := f.Source
			f.Source = func(path string) modelfile.Source { return sizeless{said(path)} }
		}, "/b c.txt \n/train/a.csv "},
		"all sizes are known": {200_003, func(_ *Fetcher, m Manifest) { m[0].Size, m[1].Size = 4, 200_000 }, ""},
		"a part is there": {1000, func(f *Fetcher, _ Manifest) {
			path := filepath.Join(f.Folder, ownFolder, "part", m[1].SHA256+".part")
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, 900),
				0o600)); err != nil {
				t.Fatal(err)
			}
		}, "/b c.txt \n/train/a.csv "},
	} {
		t.Run(name, func(t *testing.T) {
			f, asked := fetcher(t, 0)
			f.MaxBytes = c.most
			wanted := manifest(t)
			c.change(f, wanted)
			if err := os.WriteFile(filepath.Join(f.Folder, "x"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := f.Fetch(t.Context(), wanted)
			const want = "file train/a.csv does not fit: the version is larger than its claim; add a version of a larger size"
			if err == nil || err.Error() != want || !Lasting(err) {
				t.Errorf("got %v, want %s", err, want)
			}
			if got := strings.Join(*asked, "\n"); got != c.asked {
				t.Errorf("asked for %q, want %q", got, c.asked)
			}
			entries, err := os.ReadDir(f.Folder)
			if err != nil || len(entries) != 1 || entries[0].Name() != "x" {
				t.Errorf("the volume has %v, %v", entries, err)
			}
		})
	}
}

// sizeless is a source that says of no file how large it is.
type sizeless struct{ modelfile.Source }

func (s sizeless) Open(ctx context.Context, offset int64) (modelfile.Content, error) {
	content, err := s.Source.Open(ctx, offset)
	content.Size = -1
	return content, err
}

func TestManifestOfTheSource(t *testing.T) {
	m := manifest(t)
	contents["SHA256SUMS"] = m.Text()
	t.Cleanup(func() { delete(contents, "SHA256SUMS") })
	f, _ := fetcher(t, 0)
	got, err := f.Manifest(t.Context(), File{Path: "SHA256SUMS", SHA256: sumOf(m.Text())})
	if err != nil || got.Digest() != m.Digest() {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := f.Manifest(t.Context(), File{Path: "SHA256SUMS", SHA256: strings.Repeat("0", 64)}); !errors.As(err,
		&modelfile.WrongDigest{}) {
		t.Errorf("got %v", err)
	}
	contents["LARGE"] = make([]byte, manifestLimit+1)
	t.Cleanup(func() { delete(contents, "LARGE") })
	if _, err := f.Manifest(t.Context(), File{Path: "LARGE", SHA256: sumOf(contents["LARGE"])}); !Lasting(err) ||
		!strings.Contains(err.Error(), "the manifest LARGE has more than 16 MiB") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(f.Folder, ownFolder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part of it is on the volume: %v", err)
	}
}

func TestManifestRefuses(t *testing.T) {
	sum := sumOf(nil)
	for text, want := range map[string]string{
		"":                          "names no files",
		"abc  a":                    "64 hexadecimal digits",
		sum + " a":                  "not one that sha256sum prints",
		sum + "  ../a":              "leaves the dataset",
		sum + "  /a":                "leaves the dataset",
		sum + "  .zeroinfra/a":      "which is taken",
		sum + "  a\n" + sum + "  a": "twice",
		sum + "  a/b/c\n" + sum + "  a-b\n" + sum + "  a": `names "a" as a file, and "a/b/c" in a folder of that name`,
		sum + "  a\\b": "backslash",
	} {
		if _, err := ReadManifest(strings.NewReader(text)); !Lasting(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{sum, sum + ":1", sum + ":x:a", sum + ":-1:a", "x:1:a"} {
		if _, err := ParseFile(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if f, err := ParseFile(sum + ":12:a:b"); err != nil || f != (File{Path: "a:b", SHA256: sum, Size: 12}) {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestSealRefuses(t *testing.T) {
	folder := t.TempDir()
	if _, err := Seal(t.Context(), folder, 100); err == nil || !strings.Contains(err.Error(), "wrote no files") {
		t.Errorf("an empty volume: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a"), make([]byte, 101), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Seal(t.Context(), folder, 100); !errors.As(err, &TooLarge{}) {
		t.Errorf("one that is too large: %v", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Seal(t.Context(), folder, 1000); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a link: %v", err)
	}
}
