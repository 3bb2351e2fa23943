// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAsk(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		said   string
		want   Progress
		fails  string
	}{
		"how far it is": {http.StatusOK, `{"bytes":5,"total":10,"files":1,"of":2}`,
			Progress{Bytes: 5, Total: 10, Files: 1, Of: 2}, ""},
		"not there":   {http.StatusNotFound, `{"bytes":5}`, Progress{}, "404"},
		"no JSON":     {http.StatusOK, "hello", Progress{}, "cannot be read"},
		"too long":    {http.StatusOK, strings.Repeat(" ", maxAnswer) + `{"bytes":5}`, Progress{}, "cannot be read"},
		"unreachable": {0, "", Progress{}, io.ErrUnexpectedEOF.Error()},
	} {
		asked := ""
		by := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if asked = r.Method + " " + r.URL.String(); c.status == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return &http.Response{StatusCode: c.status, Status: http.StatusText(c.status) + " 404",
				Body: io.NopCloser(strings.NewReader(c.said))}, nil
		})}
		got, err := Ask(t.Context(), by, "2001:db8::1")
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: got %+v and %v, want %+v and %q", name, got, err, c.want, c.fails)
		}
		if asked != "GET http://[2001:db8::1]:8080/progress" {
			t.Errorf("%s: asked %s", name, asked)
		}
	}
}
