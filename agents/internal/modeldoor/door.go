// SPDX-License-Identifier: Apache-2.0

package modeldoor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// maxSent is how often a request is sent to servers that take it and do not begin to answer it.
	maxSent = 3
	// retryAfter is how long clients are told to wait that cannot be held, in seconds.
	retryAfter = 10
)

// Options of a Door.
type Options struct {
	// Servers is the host and port that leads to the servers that are ready.
	Servers string
	// After is how long no request has to come until the servers are not needed.
	After time.Duration
	// MaxWaiting is how many requests may wait for a server, and MaxWait how long each.
	MaxWaiting int
	MaxWait    time.Duration
	// Log of the door.
	Log *slog.Logger
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

// Door passes requests on to servers, and holds them while there are none.
type Door struct {
	options   Options
	queue     *queue
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	// room is what is left for bodies that are kept, in bytes.
	room  atomic.Int64
	state state
}

// forwarded are the headers of proxies before the door, which ReverseProxy takes out.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// New makes a door.
func New(options Options) *Door {
	if options.Now == nil {
		options.Now = time.Now
	}
	d := &Door{options: options, queue: &queue{address: options.Servers, most: options.MaxWaiting}}
	d.room.Store(maxKeptTogether)
	d.state.last = options.Now()
	d.transport = &http.Transport{
		DialContext:        (&net.Dialer{Timeout: dialTimeout}).DialContext,
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
	d.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", options.Servers, r.In.Host
			for _, name := range forwarded {
				if values, has := r.In.Header[name]; has {
					r.Out.Header[name] = values
				}
			}
			// The whole body is on its way, or kept.
			r.Out.Header.Del("Expect")
		},
		Transport:     roundTripper{d},
		FlushInterval: -1,
		ErrorHandler:  d.failed,
		ErrorLog:      slog.NewLogLogger(options.Log.Handler(), slog.LevelWarn),
	}
	return d
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.state.begin()
	defer func() { d.state.end(d.options.Now()) }()
	d.proxy.ServeHTTP(w, r)
}

// roundTripper sends the requests of a door.
type roundTripper struct{ door *Door }

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	d := t.door
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	content, err := read(r, &d.room)
	if err != nil {
		return nil, errors.Join(errClient, err)
	}
	defer content.release()
	var late <-chan time.Time
	for sent := 0; ; {
		response, taken, err := d.send(r, content)
		if err == nil {
			return response, nil
		}
		if taken {
			sent++
		}
		switch {
		case r.Context().Err() != nil, !content.again(), sent >= maxSent:
			return nil, err
		case late == nil:
			late = time.After(d.options.MaxWait)
		}
		if err := d.queue.wait(r.Context(), late); err != nil {
			return nil, err
		}
	}
}

// errAnswered says that the answer had begun.
var errAnswered = errors.New("the answer was cut off")

// send sends a request once. taken says whether a server took it.
func (d *Door) send(r *http.Request, content *body) (response *http.Response, taken bool, err error) {
	var connected, answered atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { connected.Store(true) },
		GotFirstResponseByte: func() { answered.Store(true) },
	})
	attempt := r.Clone(ctx)
	attempt.Body = content.reader()
	response, err = d.transport.RoundTrip(attempt)
	if err != nil && answered.Load() {
		content.begun.Store(true)
		err = errors.Join(errAnswered, err)
	}
	return response, connected.Load(), err
}

// errClient says that the client did not send its request.
var errClient = errors.New("the request was cut off")

// failed answers a request that no server has answered.
func (d *Door) failed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errClient):
		// Nobody reads the answer.
		status = http.StatusBadRequest
	case errors.Is(err, errFull), errors.Is(err, errLate):
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		d.state.refused.Add(1)
	}
	if status != http.StatusBadRequest {
		d.options.Log.Warn("a request was not answered", "path", r.URL.Path, "reason", err.Error())
	}
	http.Error(w, err.Error(), status)
}
