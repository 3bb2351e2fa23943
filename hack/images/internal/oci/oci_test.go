// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func assemble(t *testing.T, content string) v1.Image {
	t.Helper()
	layer, err := NewLayer(t.TempDir(), "a note", func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := CloseAll([]*Layer{layer}); err != nil {
			t.Error(err)
		}
	})
	image, err := Assemble([]*Layer{layer}, v1.Config{User: "999:999"}, "amd64", time.Unix(0, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func archive(t *testing.T, image v1.Image) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.tar")
	if err := Write(file, image, "zeroinfra/test", "1.0", "key"); err != nil {
		t.Fatal(err)
	}
	return file
}

func digest(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()
	h, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// emptyTar is the end of a tar archive, so that validation can read the layer.
var emptyTar = strings.Repeat("\x00", 1024)

func TestArchiveKeepsTheImage(t *testing.T) {
	image := assemble(t, emptyTar)
	file := archive(t, image)
	opened, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if opened.Inputs != "key" || digest(t, opened.Image) != digest(t, image) {
		t.Errorf("inputs %q, digest %s, want %s", opened.Inputs, digest(t, opened.Image), digest(t, image))
	}
	if err := validate.Image(opened.Image); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	// The same file as `docker load` reads it.
	tag, err := name.NewTag("zeroinfra/test:1.0")
	if err != nil {
		t.Fatal(err)
	}
	docker, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	want, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := docker.ConfigName(); err != nil || got != want {
		t.Errorf("docker would load image %s, %v, want %s", got, err, want)
	}
}

func TestArchivesAreReproducible(t *testing.T) {
	one, err := os.ReadFile(archive(t, assemble(t, emptyTar)))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(archive(t, assemble(t, emptyTar)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("the same content gave two archives")
	}
}

func TestOpenRefusesBrokenArchives(t *testing.T) {
	data, err := os.ReadFile(archive(t, assemble(t, emptyTar)))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "broken.tar")
	for _, cut := range []int{0, 700, len(data) / 2, len(data) - 1700} {
		if err := os.WriteFile(file, data[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); err == nil {
			t.Errorf("an archive of %d out of %d bytes was opened", cut, len(data))
		}
	}
}

func TestPushedImageHasTheSameDigest(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	opened, err := Open(archive(t, assemble(t, emptyTar)))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	ref, err := Reference(strings.TrimPrefix(server.URL, "http://")+"/prefix", "zeroinfra/test:1.0", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := Push(t.Context(), ref, opened.Image); err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if digest(t, pulled) != digest(t, opened.Image) {
		t.Errorf("pulled %s, pushed %s", digest(t, pulled), digest(t, opened.Image))
	}
	if err := validate.Image(pulled); err != nil {
		t.Errorf("the pulled image is not valid: %v", err)
	}
}

func TestReferenceRefusesBadRegistries(t *testing.T) {
	if _, err := Reference("not a host", "zeroinfra/test:1.0"); err == nil ||
		!strings.Contains(err.Error(), "not a host") {
		t.Errorf("Reference = %v", err)
	}
}
