// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// speaking is a storage that answers as a test has it.
func speaking(t *testing.T, answer http.HandlerFunc) *Storage {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	storage, err := FromEnv([]string{mover.ObjectsEndpoint + "=" + server.URL, mover.ObjectsAccessKey + "=somebody",
		mover.ObjectsSecretKey + "=not-a-secret"},
		store.Patience{Answer: time.Minute, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return storage
}

// refusing says why it takes nothing.
func refusing(code, sentence string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, sentence)
	}
}

// zeros are content without end, of which somebody may be at a piece.
type zeros struct{ held atomic.Int32 }

// Read implements [io.Reader].
func (z *zeros) Read(p []byte) (int, error) {
	z.held.Add(1)
	defer z.held.Add(-1)
	clear(p)
	return len(p), nil
}

// What is not to be asked again says why, in the words of whoever refuses it.
func TestRefusalsSayWhy(t *testing.T) {
	const sentence = "Your metadata headers exceed the maximum allowed metadata size"
	storage := speaking(t, refusing("MetadataTooLarge", sentence+"."))
	_, small := storage.Put(t.Context(), &mover.Entry{Bucket: "pictures", Key: "a", Size: 1}, []byte("a"))
	_, large := storage.PutLarge(t.Context(), &mover.Entry{Bucket: "pictures", Key: "a", Size: 9 << 20}, &zeros{})
	// The client refuses this one by itself.
	_, client := storage.Put(t.Context(),
		&mover.Entry{Bucket: "pictures", Key: "a", Size: 1, Metadata: map[string]string{"Two Words": "x"}}, []byte("a"))
	for want, err := range map[string]error{"MetadataTooLarge: " + sentence: small, "says MetadataTooLarge: " +
		sentence: large, "InvalidArgument: X-Amz-Meta-Two Words": client} {
		if !errors.As(err, new(store.Refused)) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), `object "a" into bucket "pictures"`) {
			t.Errorf("it says %v", err)
		}
	}
}

// Nobody reads the content any more when it is said what became of the object: it is closed then.
func TestContentIsLeftAlone(t *testing.T) {
	storage := speaking(t, refusing("EntityTooLarge", "It is too large"))
	content := &zeros{}
	_, err := storage.PutLarge(t.Context(), &mover.Entry{Bucket: "films", Key: "a", Size: 9 << 20}, content)
	if err == nil {
		t.Error("it is there")
	}
	if content.held.Load() != 0 {
		t.Error("somebody reads it")
	}
	if n, err := (&source{from: content, ended: true}).Read(make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("%d bytes are read: %v", n, err)
	}
}

// taking takes an object in parts, and counts their bytes.
func taking(parts, bytes *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
		case r.Method == http.MethodPost:
			fmt.Fprint(w, "<CompleteMultipartUploadResult><Bucket>films</Bucket><ETag>x</ETag></CompleteMultipartUploadResult>")
		case r.Method == http.MethodPut:
			_, _ = io.Copy(io.Discard, r.Body)
			var size int64
			_, _ = fmt.Sscan(r.Header.Get("X-Amz-Decoded-Content-Length"), &size)
			parts.Add(1)
			bytes.Add(size)
			w.Header().Set("ETag", fmt.Sprintf("%q", "x"))
		}
	}
}

// Parts that are larger than usual, as those of the largest objects are, are in memory at no time.
func TestLargePartsAreNotHeld(t *testing.T) {
	var parts, bytes atomic.Int64
	storage := speaking(t, taking(&parts, &bytes))
	entry := &mover.Entry{Bucket: "films", Key: "a", Size: 2*64<<20 + 5}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	outcome, err := storage.send(t.Context(), entry, io.LimitReader(&zeros{}, entry.Size), minio.PutObjectOptions{},
		64<<20)
	runtime.ReadMemStats(&after)
	if err != nil || outcome != Written || parts.Load() != 3 || bytes.Load() != entry.Size {
		t.Errorf("%d parts with %d bytes came: %v", parts.Load(), bytes.Load(), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
		t.Errorf("it took %d bytes", took)
	}
	// What ends too early makes no object.
	if _, err := storage.send(t.Context(), entry, strings.NewReader("short"), minio.PutObjectOptions{},
		64<<20); err == nil {
		t.Error("half an object is there")
	}
}

func TestContentIsTakenInOrder(t *testing.T) {
	content := inOrder{&source{from: strings.NewReader("0123456789")}}
	piece := make([]byte, 4)
	if n, err := content.ReadAt(piece, 0); err != nil || string(piece[:n]) != "0123" {
		t.Errorf("first is %q: %v", piece[:n], err)
	}
	if _, err := content.ReadAt(piece, 0); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("it goes back: %v", err)
	}
	if n, err := content.ReadAt(piece, 4); err != nil || string(piece[:n]) != "4567" {
		t.Errorf("next is %q: %v", piece[:n], err)
	}
	if n, err := content.ReadAt(piece, 8); n != 2 || !errors.Is(err, io.EOF) {
		t.Errorf("last are %d bytes: %v", n, err)
	}
}
