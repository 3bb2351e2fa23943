// SPDX-License-Identifier: Apache-2.0

// Package testbucket serves the objects of one bucket to tests that read by S3, in their own process. It looks at who
// signed a request, and not whether the signature is right: where that counts, take teststorage.
package testbucket

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Account is the one that may read.
const Account = "account"

// Bucket is what is served.
type Bucket struct {
	// Name of the bucket.
	Name string
	// Region that requests are signed for; empty for any.
	Region string
	// Objects by their keys.
	Objects map[string][]byte
}

// Serve serves the bucket until the test ends, and returns the URL of the storage.
func (b Bucket) Serve(t *testing.T) (endpoint string) {
	t.Helper()
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	return s.URL
}

// ServeHTTP implements http.Handler: parts of objects can be asked for.
func (b Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	signed := r.Header.Get("Authorization")
	key, inside := strings.CutPrefix(r.URL.Path, "/"+b.Name+"/")
	object, found := b.Objects[key]
	switch {
	case !strings.Contains(signed, "Credential="+Account+"/"),
		b.Region != "" && !strings.Contains(signed, "/"+b.Region+"/s3/"):
		w.WriteHeader(http.StatusForbidden)
	case !inside, !found:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(object))
	}
}
