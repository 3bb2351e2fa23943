// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// askEvery is how often an API server that is away is asked again, and how long an answer may take.
	askEvery, askPatience = 2 * time.Second, 5 * time.Second
	// tellEvery is how often the log says that it is still away.
	tellEvery = 30 * time.Second
)

// awaitServer returns once the API server answers, however long that takes. An operator that ended instead would be
// restarted ever later: up to five minutes after the API server is back.
func awaitServer(ctx context.Context, cfg *rest.Config, log logr.Logger) error {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = askPatience
	server, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	var told time.Time
	return wait.PollUntilContextCancel(ctx, askEvery, true, func(context.Context) (bool, error) {
		_, err := server.ServerVersion()
		if !away(err) {
			return true, nil // What it answers, the requests that follow have to deal with.
		}
		if time.Since(told) >= tellEvery {
			log.Info("waiting for the API server, which does not answer", "server", cfg.Host, "error", err.Error())
			told = time.Now()
		}
		return false, nil
	})
}

// away reports whether an error says that nobody answers, or somebody who has nothing to say yet.
func away(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err)
}

// startProbes answers probes until the manager does: the process lives and is not ready.
type startProbes struct {
	close func() error
	// reason is why the operator is not ready.
	reason atomic.Value
}

// say has /readyz answer with a reason.
func (p *startProbes) say(reason string) { p.reason.Store(reason) }

// serveProbes begins to answer probes at an address; at none when that is empty or 0.
func serveProbes(addr string) (*startProbes, error) {
	p := &startProbes{close: func() error { return nil }}
	p.say("the operator has not begun yet")
	if addr == "0" || addr == "" {
		return p, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot answer probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, p.reason.Load().(string), http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: askPatience}
	go func() { _ = server.Serve(listener) }() // It ends when it is closed.
	p.close = server.Close
	return p, nil
}
