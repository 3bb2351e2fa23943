// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"net/http"
	"strings"
)

// readAgain repeats a read of a test that the API server has refused as one stream too many of the connection that all
// clients of a process have in common: client and server do not count streams that end in the same way
// (golang/go#47635). Controllers try again by themselves.
type readAgain struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readAgain) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil && request.Method == http.MethodGet && strings.Contains(err.Error(), "PROTOCOL_ERROR") {
		return r.next.RoundTrip(request)
	}
	return response, err
}
