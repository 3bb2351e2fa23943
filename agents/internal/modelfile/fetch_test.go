// SPDX-License-Identifier: Apache-2.0

package modelfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroinfra/agents/internal/testbucket"
)

// content of the file that all tests are about.
var content = bytes.Repeat([]byte("weights "), 100_000)

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// server serves the content, and notes which ranges were asked for. Of the first most requests it cuts the answer off
// in the middle.
type server struct {
	*httptest.Server
	cut    int
	ranges []string
}

func serve(t *testing.T, cut int, ranges http.HandlerFunc) *server {
	t.Helper()
	s := &server{cut: cut}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ranges = append(s.ranges, r.Header.Get("Range"))
		if s.cut > 0 {
			s.cut--
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:len(content)/2])
			return
		}
		ranges(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func ranged(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "m.gguf", time.Time{}, bytes.NewReader(content))
}

func whole(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }

// otherPart answers whoever asks for a part with another one.
func otherPart(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		r.Header.Set("Range", "bytes=0-99")
	}
	ranged(w, r)
}

func nothing(int64, int64) {}

func TestFetchResumesWhereItWasCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		ranges  []string
	}{
		"with ranges":    {ranged, []string{"", fmt.Sprintf("bytes=%d-", len(content)/2)}},
		"without ranges": {whole, []string{"", fmt.Sprintf("bytes=%d-", len(content)/2)}},
		"other ranges":   {otherPart, []string{"", fmt.Sprintf("bytes=%d-", len(content)/2), ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := serve(t, 1, c.handler), t.TempDir()
			want := Wanted{SHA256: digestOf(content), Size: int64(len(content))}
			if _, err := Fetch(t.Context(), HTTP{URL: s.URL}, folder, want, nothing); err == nil ||
				!strings.Contains(err.Error(), "cut off") {
				t.Fatalf("first attempt: %v", err)
			}
			var last, total int64
			path, err := Fetch(t.Context(), HTTP{URL: s.URL}, folder, want, func(done, of int64) { last, total = done, of })
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, content) {
				t.Errorf("got %d other bytes", len(got))
			}
			if last != want.Size || total != want.Size {
				t.Errorf("progress ended at %d of %d", last, total)
			}
			// It is there: nobody is asked.
			if _, err := Fetch(t.Context(), HTTP{URL: s.URL}, folder, want, nothing); err != nil {
				t.Error(err)
			}
			if !slices.Equal(s.ranges, c.ranges) {
				t.Errorf("asked for %q, want %q", s.ranges, c.ranges)
			}
		})
	}
}

// stalling is a source that sends so much of the content, and then nothing, but does not end.
type stalling int

func (s stalling) Open(ctx context.Context, offset int64) (Content, error) {
	return Content{ReadCloser: io.NopCloser(&stalled{ctx, bytes.NewReader(content[offset:s])}), Offset: offset,
		Size: int64(len(content))}, nil
}

type stalled struct {
	ctx  context.Context
	from io.Reader
}

func (s *stalled) Read(data []byte) (int, error) {
	n, err := s.from.Read(data)
	if errors.Is(err, io.EOF) {
		<-s.ctx.Done()
		err = s.ctx.Err()
	}
	return n, err
}

// A download of which nothing comes any more is given up, and goes on where it was.
func TestFetchGivesUpWhatStalls(t *testing.T) {
	s, folder := serve(t, 0, ranged), t.TempDir()
	want := Wanted{SHA256: digestOf(content), Size: int64(len(content))}
	synctest.Test(t, func(t *testing.T) {
		_, err := Fetch(t.Context(), stalling(1000), folder, want, nothing)
		const says = "cut off after 1000 bytes: nothing has come for 2m0s"
		if err == nil || !strings.Contains(err.Error(), says) || Lasting(err) {
			t.Errorf("got %v", err)
		}
	})
	if _, err := Fetch(t.Context(), HTTP{URL: s.URL}, folder, want, nothing); err != nil {
		t.Error(err)
	}
	if !slices.Equal(s.ranges, []string{"bytes=1000-"}) {
		t.Errorf("asked for %q", s.ranges)
	}
}

// The part that is there may be of what the source had before: only a whole file of another digest is another file.
func TestFetchBeginsAnewWhereThePartIsOfAnotherFile(t *testing.T) {
	for name, size := range map[string]int64{"size known": int64(len(content)), "size not known": 0} {
		for length, part := range map[string][]byte{
			"a part": []byte("former weights"), "all of it": bytes.Repeat([]byte("x"), len(content)),
		} {
			t.Run(name+", "+length, func(t *testing.T) {
				s, folder := serve(t, 0, ranged), t.TempDir()
				want := Wanted{SHA256: digestOf(content), Size: size}
				if err := os.WriteFile(filepath.Join(folder, want.SHA256+unfinished), part, 0o600); err != nil {
					t.Fatal(err)
				}
				path, err := Fetch(t.Context(), HTTP{URL: s.URL}, folder, want, nothing)
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := os.ReadFile(path); !bytes.Equal(got, content) {
					t.Errorf("got %d other bytes", len(got))
				}
			})
		}
	}
}

func TestFetchRefusesAnotherFile(t *testing.T) {
	s := serve(t, 0, ranged)
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	other := digestOf([]byte("other"))
	for name, c := range map[string]struct {
		url  string
		want Wanted
		says string
	}{
		"digest":    {s.URL, Wanted{SHA256: other}, "has the SHA-256 digest " + digestOf(content)},
		"too large": {s.URL, Wanted{SHA256: other, Size: 10}, "800000 bytes at its source, and 10 are wanted"},
		"not there": {missing.URL + "/?token=s3cret", Wanted{SHA256: other}, `answers "404 Not Found"`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			_, err := Fetch(t.Context(), HTTP{URL: c.url}, folder, c.want, nothing)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 && name == "digest" {
				t.Errorf("%q is left", left)
			}
		})
	}
}

func TestKeepOnlyRemovesTheFormerModel(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cache")
	base, adapter := Wanted{SHA256: digestOf(content)}, Wanted{SHA256: digestOf([]byte("adapter"))}
	if err := KeepOnly(folder, base); err != nil {
		t.Fatal(err)
	}
	names := []string{base.SHA256, adapter.SHA256 + unfinished, digestOf([]byte("former")), "former" + unfinished}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := KeepOnly(folder, base, adapter); err != nil {
		t.Fatal(err)
	}
	for n, name := range names {
		if _, err := os.Stat(filepath.Join(folder, name)); errors.Is(err, os.ErrNotExist) != (n >= 2) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Verify(t.Context(), path, Wanted{SHA256: digestOf(content), Size: int64(len(content))}, nothing)
	if err != nil {
		t.Error(err)
	}
	var wrong WrongDigest
	if err := Verify(t.Context(), path, Wanted{SHA256: digestOf(nil)}, nothing); !errors.As(err, &wrong) ||
		wrong.Got != digestOf(content) {
		t.Errorf("got %v", err)
	}
	if err := Verify(t.Context(), path, Wanted{SHA256: digestOf(content), Size: 3}, nothing); err == nil {
		t.Error("a file of another size was taken")
	}
}

func TestCheckFormat(t *testing.T) {
	folder := t.TempDir()
	for content, of := range map[string]map[string]string{
		"GGUF\x03": {"GGUF": "", "ONNX": "", "": ""},
		"<html>":   {"GGUF": `begins with "<htm", and not with "GGUF"`, "ONNX": ""},
		"G":        {"GGUF": `begins with "G", and`},
		"":         {"GGUF": `begins with ""`, "": ""},
	} {
		path := filepath.Join(folder, digestOf([]byte(content)))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for format, says := range of {
			err := CheckFormat(path, format)
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%q as %q: got %v, want %q", content, format, err, says)
			}
		}
	}
}

func TestFetchFromABucket(t *testing.T) {
	storage := testbucket.Bucket{Name: "models", Objects: map[string][]byte{"tiny.gguf": content}}
	from := S3{Endpoint: storage.Serve(t), Bucket: storage.Name, Key: "tiny.gguf", AccessKey: testbucket.Account,
		SecretKey: "key"}
	folder, want := t.TempDir(), Wanted{SHA256: digestOf(content)}
	if err := os.WriteFile(filepath.Join(folder, want.SHA256+unfinished), content[:1000], 0o600); err != nil {
		t.Fatal(err)
	}
	first := int64(-1)
	path, err := Fetch(t.Context(), from, folder, want, func(done, _ int64) {
		if first < 0 {
			first = done
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, content) || first < 1000 {
		t.Errorf("got %d bytes, and began at %d", len(got), first)
	}
	from.Key = "another.gguf"
	if _, err := Fetch(t.Context(), from, folder, Wanted{SHA256: digestOf(nil)}, nothing); err == nil ||
		!strings.Contains(err.Error(), `"another.gguf" of bucket "models"`) {
		t.Errorf("got %v", err)
	}
}
