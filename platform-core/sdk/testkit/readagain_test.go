// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// refusing fails the first request.
type refusing struct {
	with  error
	calls int
}

func (r *refusing) RoundTrip(*http.Request) (*http.Response, error) {
	if r.calls++; r.calls == 1 {
		return nil, r.with
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestReadAgain(t *testing.T) {
	tooMany := errors.New("stream error: stream ID 5; PROTOCOL_ERROR; received from peer")
	for _, c := range []struct {
		method string
		with   error
		calls  int
	}{{http.MethodGet, tooMany, 2}, {http.MethodPost, tooMany, 1}, {http.MethodGet, errors.New("connection refused"), 1}} {
		next := &refusing{with: c.with}
		response, err := readAgain{next}.RoundTrip(httptest.NewRequest(c.method, "/api", nil))
		if response != nil {
			response.Body.Close()
		}
		if next.calls != c.calls || (err == nil) != (c.calls == 2) {
			t.Errorf("%s after %q: %d calls, %v", c.method, c.with, next.calls, err)
		}
	}
}
