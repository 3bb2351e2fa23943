// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const (
	// atOnce is how many may read at a time.
	atOnce = 4
	// patience is what anybody has to ask, and the longest answer takes.
	patience = 2 * plan.MetricsScrapeSeconds * time.Second
)

// Endpoint is where a Prometheus reads.
type Endpoint struct {
	// Address and Path of the metrics.
	Address, Path string
	// Certificates that are shown; nil for plain HTTP.
	Certificates *mutualtls.Certificates
	Log          *slog.Logger
}

// Serve answers until the context ends.
func Serve(ctx context.Context, e Endpoint, c *Collector) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+e.Path, promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, ErrorLog: slog.NewLogLogger(e.Log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: atOnce,
	}))
	server := &http.Server{Handler: mux, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(e.Log.Handler(), slog.LevelDebug)}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.Address)
	if err != nil {
		return fmt.Errorf("cannot listen for readers of metrics: %w", err)
	}
	if e.Certificates != nil {
		listener = tls.NewListener(listener, e.Certificates.Public())
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	e.Log.Info("tells metrics", "address", listener.Addr().String(), "path", e.Path)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
