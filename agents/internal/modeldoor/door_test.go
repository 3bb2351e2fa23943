// SPDX-License-Identifier: Apache-2.0

package modeldoor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testnet"
)

// servers are those behind an address, of which there is one or none.
type servers struct {
	t       *testing.T
	address string
	handler http.Handler
	running *http.Server
}

func noServers(t *testing.T, handler http.HandlerFunc) *servers {
	t.Helper()
	s := &servers{t: t, address: testnet.FreeAddress(t), handler: handler}
	t.Cleanup(func() {
		if s.running != nil {
			_ = s.running.Close()
		}
	})
	return s
}

// start has a server accept connections.
func (s *servers) start() {
	s.t.Helper()
	var listener net.Listener
	until(s.t, "the port is free of connections that had it for theirs", func() (free bool) {
		var err error
		listener, err = net.Listen("tcp", s.address)
		return err == nil
	})
	s.running = &http.Server{Handler: s.handler}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.running)
}

// stop has the server finish its requests, as one that is drained.
func (s *servers) stop() {
	s.t.Helper()
	if err := s.running.Shutdown(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.running = nil
}

// opened is a door before the servers, and its address.
func (s *servers) opened(change func(*Options)) (*Door, string) {
	s.t.Helper()
	o := Options{Servers: s.address, After: time.Hour, MaxWaiting: 100, MaxWait: 2 * time.Minute,
		Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	d := New(o)
	front := httptest.NewServer(d)
	s.t.Cleanup(front.Close)
	return d, front.URL
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s %s ", r.Method, r.URL, r.Header.Get("Authorization"))
	_, _ = w.Write(body)
}

// post makes a request, and returns what is answered with 200.
func post(ctx context.Context, url string, body io.Reader) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions?n=1", body)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer k")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it is answered with %q: %s", response.Status, said)
	}
	return string(said), err
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what + ": it never was")
		}
	}
}

// Servers come and go while requests flow, and each of them is answered.
func TestNoRequestIsLostAsServersComeAndGo(t *testing.T) {
	const requests, clients, changes = 1000, 8, 20
	s := noServers(t, echo)
	d, url := s.opened(nil)
	var answered atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := range requests / clients {
				text := fmt.Sprintf("%d of %d", n, client)
				said, err := post(t.Context(), url, strings.NewReader(text))
				if want := "POST /v1/completions?n=1 Bearer k " + text; err != nil || said != want {
					t.Errorf("got %q, %v; want %q", said, err, want)
				}
				answered.Add(1)
			}
		})
	}
	for change := range int64(changes) {
		until(t, "a request waits", func() bool { return d.Demand() == Waiting || answered.Load() == requests })
		s.start()
		until(t, "requests are answered", func() bool { return answered.Load() >= (change+1)*requests/changes/2 })
		s.stop()
	}
	s.start()
	all.Wait()
	if got := d.state.requests.Load(); got != requests {
		t.Errorf("the door had %d requests", got)
	}
}

// A server that takes a request and ends before it answers is no loss; one that ends amid an answer is said to the
// client.
func TestRequestIsSentAgainUntilTheAnswerBegins(t *testing.T) {
	body := make([]byte, maxKept)
	_, _ = rand.Read(body)
	var breaks, asked atomic.Int64
	s := noServers(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		got, _ := io.ReadAll(r.Body)
		if !bytes.Equal(got, body) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		if breaks.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "answer")
		if r.URL.Query().Get("amid") != "" {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	s.start()
	_, url := s.opened(nil)
	breaks.Store(maxSent - 1)
	if said, err := post(t.Context(), url, bytes.NewReader(body)); err != nil || said != "answer" {
		t.Errorf("got %q, %v", said, err)
	}
	if got := asked.Load(); got != maxSent {
		t.Errorf("it was sent %d times", got)
	}
	breaks.Store(maxSent)
	if _, err := post(t.Context(), url, bytes.NewReader(body)); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("what no server answers is answered with %v", err)
	}
	asked.Store(0)
	response, err := http.Post(url+"/?amid=1", "text/plain", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if said, err := io.ReadAll(response.Body); err == nil || string(said) != "answer" || asked.Load() != 1 {
		t.Errorf("got %q, %v, after it was sent %d times", said, err, asked.Load())
	}
}

// A body that is too large to be kept is sent once a server is there, and once only.
func TestLargeBodyIsSentOnce(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), maxKept/4)
	var breaks, asked atomic.Int64
	s := noServers(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		got, _ := io.ReadAll(r.Body)
		if breaks.Load() > 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprint(w, bytes.Equal(got, body))
	})
	d, url := s.opened(nil)
	for name, content := range map[string]io.Reader{
		"a length":   bytes.NewReader(body),
		"no length":  io.MultiReader(bytes.NewReader(body)),
		"none of it": io.MultiReader(bytes.NewReader(body[:0])),
	} {
		said := make(chan string)
		go func() {
			text, err := post(t.Context(), url, content)
			said <- fmt.Sprintf("%s %v", text, err)
		}()
		until(t, "it waits", func() bool { return d.Demand() == Waiting })
		s.start()
		if got, want := <-said, fmt.Sprintf("%t <nil>", name != "none of it"); got != want {
			t.Errorf("with %s: got %s, want %s", name, got, want)
		}
		s.stop()
	}
	s.start()
	breaks.Store(1)
	asked.Store(0)
	if _, err := post(t.Context(), url, bytes.NewReader(body)); err == nil || asked.Load() != 1 {
		t.Errorf("got %v, after it was sent %d times", err, asked.Load())
	}
	if left := d.room.Load(); left != maxKeptTogether {
		t.Errorf("%d bytes are left for bodies", left)
	}
}

// Without room for its body a request is passed on all the same.
func TestBodiesTogetherAreLimited(t *testing.T) {
	s := noServers(t, echo)
	s.start()
	d, url := s.opened(nil)
	d.room.Store(3)
	for _, text := range []string{"abc", "abcd"} {
		if said, err := post(t.Context(), url, strings.NewReader(text)); err != nil || !strings.HasSuffix(said, " "+text) {
			t.Errorf("got %q, %v", said, err)
		}
	}
	if left := d.room.Load(); left != 3 {
		t.Errorf("%d bytes are left for bodies", left)
	}
}

func TestLimitsOfWaiting(t *testing.T) {
	s := noServers(t, echo)
	d, url := s.opened(func(o *Options) { o.MaxWaiting = 2 })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	for range 2 {
		go func() {
			_, err := post(ctx, url, nil)
			left <- err
		}()
	}
	until(t, "two wait", func() bool { return d.queue.len() == 2 })
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "10" {
		t.Errorf("the third is answered with %s, and Retry-After %q", response.Status, response.Header.Get("Retry-After"))
	}
	cancel()
	for range 2 {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	until(t, "nobody waits", func() bool { return d.queue.len() == 0 })
	_, url = s.opened(func(o *Options) { o.MaxWait = time.Millisecond })
	if _, err := post(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a request that waits too long is answered with %v", err)
	}
}

// Parts of an answer come as the server writes them.
func TestAnswerIsStreamed(t *testing.T) {
	further := make(chan struct{})
	s := noServers(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		<-further
		_, _ = io.WriteString(w, "second")
	})
	s.start()
	_, url := s.opened(nil)
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	first := make([]byte, len("first "))
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first " {
		t.Fatalf("got %q, %v", first, err)
	}
	close(further)
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "second" {
		t.Errorf("got %q, %v", rest, err)
	}
}

// The door says of itself whether servers are needed.
func TestDemand(t *testing.T) {
	s := noServers(t, echo)
	var seconds atomic.Int64
	d, url := s.opened(func(o *Options) {
		o.After = time.Minute
		o.Now = func() time.Time { return time.Unix(seconds.Load(), 0) }
	})
	state := httptest.NewServer(d.State())
	t.Cleanup(state.Close)
	expect := func(when string, want Demand) {
		t.Helper()
		said := asked(t, state.URL+"/demand")
		if said != "demand="+string(want)+"\n" {
			t.Errorf("%s: it says %q, want %s", when, said, want)
		}
	}
	expect("at the start", Active)
	seconds.Add(60)
	expect("after a minute", Idle)
	said := make(chan error)
	go func() {
		_, err := post(t.Context(), url, nil)
		said <- err
	}()
	until(t, "a request waits", func() bool { return d.queue.len() == 1 })
	expect("with a request", Waiting)
	if text := asked(t, state.URL+"/metrics"); !strings.Contains(text, "\nmodel_door_requests_waiting 1\n") ||
		!strings.Contains(text, "\nmodel_door_requests_processing 0\n") {
		t.Errorf("metrics are %s", text)
	}
	s.start()
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	until(t, "it is over", func() bool { return d.Demand() == Active })
	seconds.Add(59)
	expect("before a minute has passed", Active)
	seconds.Add(1)
	expect("when it has passed", Idle)
}

func asked(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A door that ends answers what it has.
func TestDoorEndsOnceRequestsAreAnswered(t *testing.T) {
	release := make(chan struct{})
	s := noServers(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		echo(w, r)
	})
	s.start()
	d, _ := s.opened(nil)
	var on Listeners
	for _, l := range []*net.Listener{&on.Requests, &on.State} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*l = listener
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, said := make(chan error, 1), make(chan error, 1)
	go func() { ended <- d.Serve(ctx, on, time.Millisecond, 2*time.Minute) }()
	go func() {
		_, err := post(t.Context(), "http://"+on.Requests.Addr().String(), nil)
		said <- err
	}()
	until(t, "a request is there", func() bool { return d.state.requests.Load() == 1 })
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("it ended with a request: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-said; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
