// SPDX-License-Identifier: Apache-2.0

package modelfile

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// registryWithLogin answers those alone who log in as puller with the password s3cret.
func registryWithLogin(t *testing.T) (host string) {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "puller" || password != "s3cret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// login is the content of a Secret for a registry.
func login(host string) string {
	return fmt.Sprintf(`{"auths":{"https://%s/v2/":{"auth":"%s"}}}`, host,
		base64.StdEncoding.EncodeToString([]byte("puller:s3cret")))
}

// layerOf has files, with their content, and a link to the first of them.
func layerOf(t *testing.T, files ...string) v1.Layer {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for n := 0; n < len(files); n += 2 {
		header := &tar.Header{Name: files[n], Mode: 0o644, Size: int64(len(files[n+1])), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[n+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "link", Linkname: files[0], Typeflag: tar.TypeSymlink}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// push puts an image into a registry.
func push(t *testing.T, reference string, layers ...mutate.Addendum) {
	t.Helper()
	image, err := mutate.Append(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	to, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	account := authn.FromConfig(authn.AuthConfig{Username: "puller", Password: "s3cret"})
	if err := remote.Write(to, image, remote.WithAuth(account)); err != nil {
		t.Fatal(err)
	}
}

func TestFetchFromAnImage(t *testing.T) {
	host := registryWithLogin(t)
	layered, artifact := host+"/models/chat:1.0", host+"/models/artifact:1.0"
	push(t, layered,
		mutate.Addendum{Layer: layerOf(t, "models/chat.gguf", "former", "models/below.gguf", string(content),
			"models/gone.gguf", "gone", "old/a.gguf", "old")},
		mutate.Addendum{Layer: layerOf(t, "./models/chat.gguf", string(content), "models/.wh.gone.gguf", "",
			"old/.wh..wh..opq", "")})
	push(t, artifact, mutate.Addendum{Layer: static.NewLayer(content, "application/vnd.example.gguf"),
		Annotations: map[string]string{titleAnnotation: "chat.gguf"}})
	for title, c := range map[string]struct{ reference, path, login, says string }{
		"the top layer":    {layered, "models/chat.gguf", login(host), ""},
		"a layer below":    {layered, "/models/below.gguf", login(host), ""},
		"an artifact":      {artifact, "chat.gguf", login(host), ""},
		"a removed file":   {layered, "models/gone.gguf", login(host), "a layer removes it"},
		"a removed folder": {layered, "old/a.gguf", login(host), "a layer removes it"},
		"no file":          {layered, "other.gguf", login(host), "has no such file"},
		"another artifact": {artifact, "other.gguf", login(host), "has no such file"},
		"a link":           {layered, "link", login(host), "no regular file"},
		"no image": {host + "/models/chat:2.0", "chat.gguf", login(host),
			"answers 404 Not Found, MANIFEST_UNKNOWN"},
		"no login":                 {layered, "models/chat.gguf", "", "answers 401 Unauthorized"},
		"another registry":         {layered, "models/chat.gguf", login("example.com"), "401"},
		"a Secret of another type": {layered, "models/chat.gguf", "s3cret", "kubernetes.io/dockerconfigjson"},
		"no reference":             {"a b", "chat.gguf", "", "no reference of an image"},
	} {
		t.Run(title, func(t *testing.T) {
			var last, total int64
			path, err := Fetch(t.Context(), Image{Reference: c.reference, Path: c.path, Login: c.login}, t.TempDir(),
				Wanted{SHA256: digestOf(content)}, func(done, of int64) { last, total = done, of })
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %v, want %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, content) || last != total || total != int64(len(content)) {
				t.Errorf("got %d bytes, told %d of %d", len(got), last, total)
			}
		})
	}
}
