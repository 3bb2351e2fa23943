// SPDX-License-Identifier: Apache-2.0

package testbucket

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// What the tests of others rely on: only signed requests of the account, for the region, get an object, in parts too.
func TestBucket(t *testing.T) {
	b := Bucket{Name: "data", Region: "eu-west-1", Objects: map[string][]byte{"a/b.csv": []byte("1,2\n")}}
	const signed = "AWS4-HMAC-SHA256 Credential=account/20260301/eu-west-1/s3/aws4_request, Signature=0"
	for name, c := range map[string]struct {
		bucket       Bucket
		path, signed string
		status       int
		said         string
	}{
		"an object": {b, "/data/a/b.csv", signed, http.StatusPartialContent, "2\n"},
		"of any region": {Bucket{Name: "data", Objects: b.Objects}, "/data/a/b.csv", signed, http.StatusPartialContent,
			"2\n"},
		"another region":  {Bucket{Name: "data", Region: "us-east-1", Objects: b.Objects}, "/data/a/b.csv", signed, 403, ""},
		"another account": {b, "/data/a/b.csv", "AWS4-HMAC-SHA256 Credential=other/20260301/eu-west-1/s3/", 403, ""},
		"not signed":      {b, "/data/a/b.csv", "", 403, ""},
		"another object":  {b, "/data/b.csv", signed, 404, ""},
		"another bucket":  {b, "/other/a/b.csv", signed, 404, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Authorization", c.signed)
		r.Header.Set("Range", "bytes=2-")
		w := httptest.NewRecorder()
		c.bucket.ServeHTTP(w, r)
		if w.Code != c.status || w.Body.String() != c.said {
			t.Errorf("%s: got %d %q, want %d %q", name, w.Code, w.Body, c.status, c.said)
		}
	}
}
