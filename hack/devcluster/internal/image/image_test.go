// SPDX-License-Identifier: Apache-2.0

//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var spec = Spec{
	Name: "devcluster.local/test:v1", Entrypoint: []string{"/bin/x"}, User: "1:1",
	Contents: []Content{
		{Path: "/tmp/", Mode: 0o1777},
		{Path: "/bin/y", Link: "x", Mode: 0o777},
		{Path: "/bin/x", Data: []byte("program"), Mode: 0o755},
	},
}

func write(t *testing.T, s Spec) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(path, s); err != nil {
		t.Fatal(err)
	}
	return path
}

// files reads a tar stream.
func files(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = data
	}
}

func TestWriteIsReproducible(t *testing.T) {
	first, err := os.ReadFile(write(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(write(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the same image has other bytes")
	}
}

func TestWrittenImageIsConsistent(t *testing.T) {
	path := write(t, spec)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := files(t, f)
	layer := all["layer.tar"]
	for _, name := range []string{"bin/", "tmp/", "bin/x", "bin/y"} {
		if _, ok := files(t, bytes.NewReader(layer))[name]; !ok {
			t.Errorf("the layer lacks %q", name)
		}
	}
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Entries) != 1 || a.Entries[0].Name != spec.Name {
		t.Fatalf("read back as %+v", a.Entries)
	}
	var config struct {
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	name := strings.TrimPrefix(a.Entries[0].ID, "sha256:") + ".json"
	if err := json.Unmarshal(all[name], &config); err != nil {
		t.Fatalf("cannot read configuration %q: %v", name, err)
	}
	sum := sha256.Sum256(layer)
	if want := "sha256:" + hex.EncodeToString(sum[:]); len(config.Rootfs.DiffIDs) != 1 ||
		config.Rootfs.DiffIDs[0] != want {
		t.Errorf("layers are %v, want %s", config.Rootfs.DiffIDs, want)
	}
}

// archive writes a tar file.
func archive(t *testing.T, contents map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tw := tar.NewWriter(f)
	for name, data := range contents {
		if err := tw.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOCIArchiveIsNamedForContainerd(t *testing.T) {
	digest := strings.Repeat("a", 64)
	path := archive(t, map[string]string{
		"oci-layout": `{"imageLayoutVersion":"1.0.0"}`,
		"index.json": `{"schemaVersion":2,"manifests":[{"mediaType":"m","digest":"sha256:` + digest +
			`","size":9,"annotations":{"org.opencontainers.image.ref.name":"redis:8"}}]}`,
		"blobs/sha256/" + digest: `{"config":{"digest":"sha256:c0"}}`,
	})
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Entry{Name: "docker.io/library/redis:8", ID: "sha256:c0"}); len(a.Entries) != 1 || a.Entries[0] != want {
		t.Fatalf("got %+v, want %+v", a.Entries, want)
	}
	var out bytes.Buffer
	if err := a.stream(&out); err != nil {
		t.Fatal(err)
	}
	var index struct {
		SchemaVersion int
		Manifests     []struct {
			Size        int
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(files(t, &out)["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if index.SchemaVersion != 2 || len(index.Manifests) != 1 || index.Manifests[0].Size != 9 {
		t.Fatalf("the index lost something: %+v", index)
	}
	if got := index.Manifests[0].Annotations[nameAnnotation]; got != "docker.io/library/redis:8" {
		t.Errorf("containerd would call it %q", got)
	}
}

func TestOpenRefusesWithReason(t *testing.T) {
	for want, contents := range map[string]map[string]string{
		"neither manifest.json nor index.json": {"x": "y"},
		"names no image":                       {"manifest.json": `[{"Config":"c.json","RepoTags":null}]`, "c.json": "{}"},
		"cannot find configuration":            {"manifest.json": `[{"Config":"c.json","RepoTags":["a:1"]}]`},
		"cannot use image name":                {"manifest.json": `[{"Config":"c.json","RepoTags":["A B"]}]`, "c.json": "{}"},
	} {
		if _, err := Open(archive(t, contents)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "x.tar.gz")
	if err := os.WriteFile(path, bytes.Repeat([]byte{0x1f, 0x8b, 7}, 400), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "uncompressed") {
		t.Errorf("got %v for a compressed file", err)
	}
}

func TestPresenceNeedsNameAndIdentity(t *testing.T) {
	a := &Archive{Entries: []Entry{{Name: "docker.io/library/redis:8", ID: "sha256:1111"}}}
	table := func(lines ...string) map[string]string {
		return parseList("REF TYPE DIGEST SIZE PLATFORMS LABELS\n" + strings.Join(lines, "\n"))
	}
	name := "docker.io/library/redis:8 application/x sha256:aaaa 9.0 MiB linux/amd64 -"
	same := "sha256:1111 application/x sha256:aaaa 9.0 MiB linux/amd64 -"
	moved := "sha256:1111 application/x sha256:bbbb 9.0 MiB linux/amd64 -"
	if !a.in(table(name, same)) {
		t.Error("an image that is there would be loaded again")
	}
	for what, present := range map[string]map[string]string{
		"nothing": table(), "another image of that name": table(name), "the image without its name": table(same),
		"the name of another image": table(name, moved),
	} {
		if a.in(present) {
			t.Errorf("%s passes for the image", what)
		}
	}
}
