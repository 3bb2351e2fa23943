// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// rereadFor is how long the API server is asked again for what it fails to read.
const rereadFor = 15 * time.Second

// rereading asks the API server again where it could not be read: a connection that breaks, a leader of etcd that
// changes, an aggregated API that is away for a moment and a kubelet that does not answer yet say nothing of what is
// read. A write is never sent twice.
type rereading struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r rereading) RoundTrip(request *http.Request) (*http.Response, error) {
	streams := strings.HasSuffix(request.URL.Path, "/exec") || strings.HasSuffix(request.URL.Path, "/portforward")
	for begin := time.Now(); ; {
		response, err := r.next.RoundTrip(request)
		read := err == nil && response.StatusCode < http.StatusInternalServerError
		if read || request.Method != http.MethodGet || streams || time.Since(begin) > rereadFor {
			return response, err
		}
		select {
		case <-request.Context().Done():
			return response, err
		case <-time.After(pollEvery):
		}
		if err == nil {
			// What it says of its failure is of no use to anybody.
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
}

// WrappedRoundTripper has those who look for what is beneath find it.
func (r rereading) WrappedRoundTripper() http.RoundTripper { return r.next }

// connectionFailureTexts are what clients say when nobody has heard them: the connection was not made, or the server
// let nobody in yet. Nothing was done then.
var connectionFailureTexts = []string{
	"Connection refused", "connection refused", "Connection timed out", "No route to host", "Could not connect",
	"bad address", "can't connect",
	"Name or service not known", "Temporary failure in name resolution", "could not translate host name",
	"timeout expired", "download timed out",
	"failed: server closed the connection", "database system is starting up", "database system is shutting down",
	"not yet accepting connections", "in recovery mode",
	"Connection reset by peer", "Server closed the connection", "code 124",
}

// connectionFailed says whether a client's command failed because nobody has heard it. The nodes learn of an endpoint
// that is new, back after a restart or gone, a moment after the object could, and "timeout" ends a client that waits
// for one that is gone.
func connectionFailed(err error) bool {
	return err != nil && slices.ContainsFunc(connectionFailureTexts,
		func(text string) bool { return strings.Contains(err.Error(), text) })
}

// isReadOnlyError says whether a server refused a write because it follows another one: the nodes may lead there for a
// moment after a change.
func isReadOnlyError(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "READONLY") ||
		strings.Contains(err.Error(), "in a read-only transaction"))
}

// RunClientCommand is what a client is told, be it a refusal. A command that nobody has heard is given again.
func (s *Namespace) RunClientCommand(ask func() (string, error)) (out string, err error) {
	s.Helper()
	err = fmt.Errorf("nobody was asked")
	_, _ = Poll(s.Ctx, EndpointTimeout, "somebody answers", func() error {
		if out, err = ask(); connectionFailed(err) {
			return err
		}
		return nil
	})
	return out, err
}

// MustRunClientCommand is what a command of a client says that has to succeed. It is given again where nobody has heard
// it, or who heard it does not write.
func (s *Namespace) MustRunClientCommand(ask func() (string, error)) (out string) {
	s.Helper()
	var err error
	s.Eventually(EndpointTimeout, "somebody answers", func() error {
		if out, err = ask(); connectionFailed(err) || isReadOnlyError(err) {
			return err
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// WaitForRefusal has the test fail unless a change is refused with a text. The API server takes what the operator does
// not judge in time, so that is asked again, and has to be asked in a way that stores nothing.
func (s *Namespace) WaitForRefusal(text string, try func() error) {
	s.Helper()
	s.Eventually(SettleTimeout, fmt.Sprintf("a change is refused with %q", text), func() error {
		err := try()
		if err == nil {
			return fmt.Errorf("it was taken")
		}
		if !strings.Contains(err.Error(), text) {
			return err
		}
		s.Logf("refused: %v", err)
		return nil
	})
}
