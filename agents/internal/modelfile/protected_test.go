// SPDX-License-Identifier: Apache-2.0

package modelfile

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// authorityOf is what the certificate of a server leads to, in PEM.
func authorityOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// quietTLS has a server by TLS keep to itself what clients do that do not trust it.
func quietTLS(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// read is the whole content of a source.
func read(t *testing.T, from Source) (string, error) {
	t.Helper()
	content, err := from.Open(t.Context(), 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	data, err := io.ReadAll(content)
	return string(data), err
}

func TestSourcesBehindAPrivateAuthority(t *testing.T) {
	files := quietTLS(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", "Mon, 02 Mar 2026 12:00:00 GMT")
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, "GGUF")
	}))
	images := quietTLS(t, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	for name, source := range map[string]func(ca []byte) Source{
		"HTTP": func(ca []byte) Source { return HTTP{URL: files.URL + "/m.gguf", CA: ca} },
		"S3":   func(ca []byte) Source { return S3{Endpoint: files.URL, Bucket: "models", Key: "m.gguf", CA: ca} },
	} {
		if got, err := read(t, source(authorityOf(files))); err != nil || got != "GGUF" {
			t.Errorf("%s: got %q and %v", name, got, err)
		}
		if _, err := read(t, source(nil)); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s without the authority: got %v", name, err)
		}
		if _, err := read(t, source([]byte("none"))); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
			t.Errorf("%s with what is no authority: got %v", name, err)
		}
	}
	// The registry has no such image: it says so to those who trust it.
	image := Image{Reference: strings.TrimPrefix(images.URL, "https://") + "/models/chat:1.0", Path: "m.gguf"}
	if _, err := read(t, image); err == nil || strings.Contains(err.Error(), "404") {
		t.Errorf("a registry without the authority: got %v", err)
	}
	image.CA = authorityOf(images)
	if _, err := read(t, image); err == nil || !strings.Contains(err.Error(), "the registry answers 404") {
		t.Errorf("a registry: got %v", err)
	}
}

func TestCredentialsOfAWebServer(t *testing.T) {
	var elsewhere string
	other := quietTLS(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		elsewhere = r.Header.Get("Authorization")
	}))
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request without TLS has %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(plain.Close)
	s := quietTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.Header.Get("Authorization") != "Bearer s3cret" && user+":"+password != "reader:s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/elsewhere":
			// The same address by another name is another host.
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
		case r.URL.Path == "/plain":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		default:
			_, _ = io.WriteString(w, "GGUF")
		}
	}))
	ca := append(authorityOf(s), authorityOf(other)...)
	for name, c := range map[string]struct {
		from HTTP
		says string
	}{
		"a token":              {HTTP{URL: s.URL, CA: ca, Token: "s3cret\n"}, ""},
		"a password":           {HTTP{URL: s.URL, CA: ca, Username: "reader", Password: "s3cret"}, ""},
		"nothing":              {HTTP{URL: s.URL, CA: ca}, "401"},
		"another token":        {HTTP{URL: s.URL, CA: ca, Token: "other"}, "401"},
		"without TLS":          {HTTP{URL: plain.URL, Token: "s3cret"}, "by https alone"},
		"redirected to no TLS": {HTTP{URL: s.URL + "/plain", CA: ca, Token: "s3cret"}, "by https alone"},
	} {
		got, err := read(t, c.from)
		if c.says == "" && (err != nil || got != "GGUF") {
			t.Errorf("%s: got %q and %v", name, got, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	// The certificate of a test server has no name such as localhost: that it is asked for is what counts.
	_, _ = read(t, HTTP{URL: s.URL + "/elsewhere", CA: ca, Token: "s3cret"})
	if elsewhere != "" {
		t.Errorf("another host is shown %q", elsewhere)
	}
}
