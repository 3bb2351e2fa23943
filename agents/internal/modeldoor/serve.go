// SPDX-License-Identifier: Apache-2.0

package modeldoor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// headerTimeout is how long a client may take to say what it asks for.
	headerTimeout = 30 * time.Second
	// idleTimeout is how long a connection of a client is kept: longer than proxies keep theirs.
	idleTimeout = 10 * time.Minute
)

// Listeners of a door: for requests, and for what asks how it is.
type Listeners struct{ Requests, State net.Listener }

// Serve serves until the context ends. Then it goes on for settle, in which clients learn that the door ends, and until
// each request is answered, for drain at most.
func (d *Door) Serve(ctx context.Context, on Listeners, settle, drain time.Duration) error {
	log := slog.NewLogLogger(d.options.Log.Handler(), slog.LevelWarn)
	requests := &http.Server{Handler: d, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, ErrorLog: log}
	state := &http.Server{Handler: d.State(), ReadHeaderTimeout: headerTimeout, ErrorLog: log}
	ended := make(chan error, 2)
	go func() { ended <- state.Serve(on.State) }()
	go func() { ended <- requests.Serve(on.Requests) }()
	defer func() { _ = state.Close() }()
	select {
	case err := <-ended:
		_ = requests.Close()
		return fmt.Errorf("cannot serve: %w", err)
	case <-ctx.Done():
	}
	// A client that has a connection asks for another one, which leads elsewhere.
	requests.SetKeepAlivesEnabled(false)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle+drain)
	defer cancel()
	select {
	case <-time.After(settle):
	case <-within.Done():
	}
	if err := requests.Shutdown(within); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("requests were not finished within %s", drain)
	} else if err != nil {
		return err
	}
	return nil
}
