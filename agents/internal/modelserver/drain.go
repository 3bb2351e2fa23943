// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Settle is how long a server goes on before Drain looks at its requests: that of a process that is restarted in its
// pod gets new ones until the kubelet has had its readiness refused often enough, and Services, Ingresses and Gateways
// have learned of it, for which propagation is left.
const (
	Settle      = plan.ReadinessPeriodSeconds*plan.ReadinessFailures*time.Second + propagation
	propagation = 4 * time.Second
)

// Quiet is how long a server must have computed nothing. While clients still reach it, it goes on.
const Quiet = 2 * time.Second

// drainInterval is between two looks at the requests of a server.
const drainInterval = 200 * time.Millisecond

// metricsPath is where a server counts its requests.
const metricsPath = "/metrics"

// Metrics of llama.cpp: those that count requests that are not finished, and those that grow with each request.
var (
	UnfinishedMetrics = []string{"llamacpp:requests_processing", "llamacpp:requests_deferred"}
	GrowingMetrics    = []string{"llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total"}
)

// Drainer waits for the requests of a server.
type Drainer struct {
	// Probe asks the server.
	Probe *Probe
	// Settle is how long the server goes on at least.
	Settle time.Duration
	// Quiet is how long it must have had no request.
	Quiet time.Duration
	// Timeout of the whole.
	Timeout time.Duration
	// Unfinished are the metrics that count requests that are not finished, and Growing those that grow with each request.
	Unfinished, Growing []string
}

// load is what a server says of its requests.
type load struct {
	// unfinished requests.
	unfinished int
	// done is what it has computed since it was started.
	done int64
}

// Drain returns once the server has had no request for a while, or at once where it was not started yet. An error says
// what was left at the timeout.
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
	var last load
	var busy time.Time
	for {
		select {
		case <-ctx.Done():
			return d.late(last)
		case <-next.C:
		}
		now, err := d.load(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			return fmt.Errorf("cannot count the requests of the server: %w", err)
		case busy.IsZero() || now.unfinished > 0 || now.done != last.done:
			last, busy = now, time.Now()
		case time.Since(busy) >= d.Quiet:
			return nil
		}
		next.Reset(drainInterval)
	}
}

// late says what was left at the timeout.
func (d *Drainer) late(last load) error {
	if last.unfinished == 0 {
		return fmt.Errorf("the server was not without requests for %s within %s", d.Quiet, d.Timeout)
	}
	return fmt.Errorf("%d requests were not finished within %s", last.unfinished, d.Timeout)
}

// load asks a server for its requests.
func (d *Drainer) load(ctx context.Context) (load, error) {
	said, err := d.Probe.answer(ctx, firstAnswer, http.MethodGet, metricsPath, nil)
	if err != nil {
		return load{}, err
	}
	unfinished, err := sum(said, d.Unfinished)
	if err != nil {
		return load{}, err
	}
	done, err := sum(said, d.Growing)
	return load{unfinished: int(unfinished), done: int64(done)}, err
}

// sum adds samples without labels in Prometheus' text format.
func sum(text []byte, names []string) (float64, error) {
	all := 0.0
	for _, name := range names {
		value, err := metric(text, name)
		if err != nil {
			return 0, err
		}
		all += value
	}
	return all, nil
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
