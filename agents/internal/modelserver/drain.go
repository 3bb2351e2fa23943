// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Settle is how long a server goes on before Drain looks at its requests: Services, Ingresses and Gateways send it new
// ones until they have learned that the pod is not ready any more.
const Settle = 5 * time.Second

// drainInterval is between two looks at the requests of a server.
const drainInterval = 200 * time.Millisecond

// metricsPath is where a server counts its requests.
const metricsPath = "/metrics"

// requestCounts are the metrics that count requests that are not finished.
var requestCounts = []string{"llamacpp:requests_processing", "llamacpp:requests_deferred"}

// Drainer waits for the requests of a server.
type Drainer struct {
	// Probe asks the server.
	Probe *Probe
	// Settle is how long the server goes on at least.
	Settle time.Duration
	// Timeout of the whole.
	Timeout time.Duration
}

// Drain returns once the server has no requests in flight, twice in a row, or at once where it was not started yet. An
// error says that some were left at the timeout.
func (d *Drainer) Drain(ctx context.Context) error {
	f := files{d.Probe.Run}
	var state State
	if err := f.read(f.state(), &state); err != nil || state.Phase != Serving || d.Timeout <= 0 {
		return nil //nolint:nilerr // Without a state there is no server, and so no request.
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	next := time.NewTimer(d.Settle)
	defer next.Stop()
	left, idle := 0, 0
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d requests were not finished within %s", left, d.Timeout)
		case <-next.C:
		}
		count, err := d.Probe.requests(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			return fmt.Errorf("cannot count the requests of the server: %w", err)
		}
		if left = count; left > 0 {
			idle = 0
		} else if idle++; idle == 2 {
			return nil
		}
		next.Reset(drainInterval)
	}
}

// requests counts those that a server has not finished.
func (p *Probe) requests(ctx context.Context) (int, error) {
	said, err := p.answer(ctx, firstAnswer, http.MethodGet, metricsPath, nil)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, name := range requestCounts {
		count, err := metric(said, name)
		if err != nil {
			return 0, err
		}
		sum += count
	}
	return int(sum), nil
}

// metric finds a sample without labels in Prometheus' text format.
func metric(text []byte, name string) (float64, error) {
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s does not have %s", metricsPath, name)
}
