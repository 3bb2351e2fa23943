// SPDX-License-Identifier: Apache-2.0

package statusagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

// ServeHTTP answers 200 when the middleware is healthy, else 503 and the reason.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	now := r.latest.Load()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch {
	case now == nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "Starting: nothing is known yet")
	case now.Health == report.Healthy:
		fmt.Fprintln(w, "Healthy")
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "%s: %s\n", now.Health, now.Message)
	}
}

// Serve serves GET /readyz until the context ends.
func (r *Readiness) Serve(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("GET /readyz", r)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 8 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve /readyz: %w", err)
	}
	return nil
}
