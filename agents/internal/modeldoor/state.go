// SPDX-License-Identifier: Apache-2.0

package modeldoor

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Demand says whether servers are needed.
type Demand string

// Values of Demand.
const (
	// Waiting: a request waits, and no server is there.
	Waiting Demand = "Waiting"
	// Active: the last request, or the start of the door, is not long ago.
	Active Demand = "Active"
	// Idle: no request has come for long.
	Idle Demand = "Idle"
)

// state is what a door has to do.
type state struct {
	requests, refused atomic.Int64

	lock sync.Mutex
	// open requests, those that wait among them.
	open int
	// last is when the door began, or the last request ended.
	last time.Time
}

func (s *state) begin() {
	s.requests.Add(1)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.open++
}

func (s *state) end(now time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.open--
	s.last = now
}

// Demand says whether servers are needed.
func (d *Door) Demand() Demand {
	waiting := d.queue.len()
	d.state.lock.Lock()
	defer d.state.lock.Unlock()
	switch {
	case waiting > 0:
		return Waiting
	case d.state.open > 0, d.options.Now().Sub(d.state.last) < d.options.After:
		return Active
	}
	return Idle
}

// State serves GET /demand, which the status agent asks for, and GET /metrics.
func (d *Door) State() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /demand", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "demand=%s\n", d.Demand())
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		waiting := d.queue.len()
		d.state.lock.Lock()
		processing := max(d.state.open-waiting, 0)
		d.state.lock.Unlock()
		for _, m := range []struct {
			name, kind, help string
			value            int64
		}{
			{"model_door_requests_waiting", "gauge", "Requests that wait for a server.", int64(waiting)},
			{"model_door_requests_processing", "gauge", "Requests that a server has.", int64(processing)},
			{"model_door_requests_total", "counter", "Requests that came.", d.state.requests.Load()},
			{"model_door_requests_refused_total", "counter", "Requests that could not wait, or not any longer.",
				d.state.refused.Load()},
		} {
			_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
		}
	})
	return mux
}
