// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// watchBuffer is how much of the answer to a watch is read at a time.
	watchBuffer = 32 << 10
	// watchBacklog is how many pieces of it are kept while they are held back.
	watchBacklog = 1 << 10
)

// Transport is the way from a client to the API server. It delays or holds back what watches say, as a slow network
// does, so that caches show old versions, and counts requests. It is safe for concurrent use.
type Transport struct {
	mu    sync.Mutex
	delay time.Duration
	// held is closed once watches say more; nil while they are not held back.
	held chan struct{}
	// resources are those whose watches are held back and delayed, by their names in the API; all when empty.
	resources []string
	// before and after are called with each request; nil for nothing.
	before    func(*http.Request)
	after     func(r *http.Request, status int)
	requests  map[request]int
	conflicts map[string]int
}

// request is a kind of request.
type request struct{ method, resource string }

// Wrap sends requests on through next; rest.Config.Wrap takes it.
func (t *Transport) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transported{Transport: t, next: next}
}

// Hold has watches of these resources say nothing from now on, until Release. Those of all when none are named.
func (t *Transport) Hold(resources ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resources = resources; t.held == nil {
		t.held = make(chan struct{})
	}
}

// Release has watches say what was held back.
func (t *Transport) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != nil {
		close(t.held)
		t.held = nil
	}
}

// Delay has what watches of these resources say come so much later from now on. Those of all when none are named.
func (t *Transport) Delay(by time.Duration, resources ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delay, t.resources = by, resources
}

// Before has this called with each request before it is sent; nil for nothing.
func (t *Transport) Before(call func(*http.Request)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before = call
}

// After has this called with each request that the API server has answered, but for watches, and the status of the
// answer, before its sender hears of that; nil for nothing.
func (t *Transport) After(call func(r *http.Request, status int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.after = call
}

// Requests returns how many requests of a method there were for a resource, without those of watches.
func (t *Transport) Requests(method, resource string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests[request{method, resource}]
}

// Writes returns how many requests there were that change a resource, and how many of them the API server refused since
// they were made on an old version.
func (t *Transport) Writes(resource string) (all, conflicts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for kind, n := range t.requests {
		if kind.resource == resource && kind.method != http.MethodGet {
			all += n
		}
	}
	return all, t.conflicts[resource]
}

// note counts a request that was answered.
func (t *Transport) note(kind request, status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests, t.conflicts = map[request]int{}, map[string]int{}
	}
	t.requests[kind]++
	if status == http.StatusConflict {
		t.conflicts[kind.resource]++
	}
}

// lateness says what is held back of a resource, and by how much it is delayed.
func (t *Transport) lateness(resource string) (held <-chan struct{}, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.resources) > 0 && !slices.Contains(t.resources, resource) {
		return nil, 0
	}
	return t.held, t.delay
}

// ResourceOf returns the resource that a request is for, without its subresource; empty when it is for none.
func ResourceOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	// api/v1/… or apis/GROUP/VERSION/….
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		return parts[2]
	}
	return parts[0]
}

type transported struct {
	*Transport
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transported) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	before, after := t.before, t.after
	t.mu.Unlock()
	if before != nil {
		before(r)
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return response, err
	}
	resource := ResourceOf(r)
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		response.Body = newLateBody(t.Transport, resource, response.Body)
		return response, nil
	}
	t.note(request{r.Method, resource}, response.StatusCode)
	if after != nil {
		after(r, response.StatusCode)
	}
	return response, nil
}

// lateBody is the answer to a watch.
type lateBody struct {
	io.ReadCloser
	transport *Transport
	resource  string
	// pieces of the answer that have come; closed at its end, of which err is the reason.
	pieces chan piece
	err    error
	// rest of a piece that was not read to its end.
	rest   []byte
	once   sync.Once
	closed chan struct{}
}

// piece of an answer, and when it came.
type piece struct {
	data []byte
	at   time.Time
}

func newLateBody(t *Transport, resource string, body io.ReadCloser) *lateBody {
	b := &lateBody{ReadCloser: body, transport: t, resource: resource, pieces: make(chan piece, watchBacklog),
		closed: make(chan struct{})}
	go b.fetch()
	return b
}

// fetch takes what comes, so that the API server does not give up a watch that is held back.
func (b *lateBody) fetch() {
	defer close(b.pieces)
	buffer := make([]byte, watchBuffer)
	for {
		n, err := b.ReadCloser.Read(buffer)
		if n > 0 {
			select {
			case b.pieces <- piece{bytes.Clone(buffer[:n]), time.Now()}:
			case <-b.closed:
				return
			}
		}
		if err != nil {
			b.err = err
			return
		}
	}
}

// Read implements io.Reader.
func (b *lateBody) Read(into []byte) (int, error) {
	if len(b.rest) == 0 {
		select {
		case next, more := <-b.pieces:
			if !more {
				return 0, b.err
			}
			if !b.await(next.at) {
				return 0, http.ErrBodyReadAfterClose
			}
			b.rest = next.data
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// await returns once what came at a time may be told; false when the watch was closed before.
func (b *lateBody) await(at time.Time) bool {
	for {
		held, delay := b.transport.lateness(b.resource)
		due := time.Until(at.Add(delay))
		switch {
		case held != nil:
			select {
			case <-held:
			case <-b.closed:
				return false
			}
		case due > 0:
			select {
			case <-time.After(due):
			case <-b.closed:
				return false
			}
		default:
			return true
		}
	}
}

// Close implements io.Closer.
func (b *lateBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
