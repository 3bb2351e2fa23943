// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writes counts, for one client, the requests that change something.
type Writes struct{ count atomic.Int64 }

// Count returns how many there were since the last call.
func (w *Writes) Count() int { return int(w.count.Swap(0)) }

// CountingClient returns a client of the API server and the counter of its writes. It has the rights of Env.System, or
// where there is none those of an administrator.
func (e *Env) CountingClient() (client.Client, *Writes, error) {
	writes := &Writes{}
	cfg := rest.CopyConfig(e.Config)
	if e.System != nil {
		cfg = rest.CopyConfig(e.System.Config)
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, writes} })
	c, err := client.New(cfg, client.Options{Scheme: e.Scheme})
	return c, writes, err
}

type counting struct {
	next   http.RoundTripper
	writes *Writes
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		c.writes.count.Add(1)
	}
	return c.next.RoundTrip(request)
}

// ServedWrites returns, by resource, how many writes the API server has served to
// anyone since it started, leases left out. Refused ones count as well.
func (e *Env) ServedWrites(ctx context.Context) (map[string]int, error) {
	clientset, err := kubernetes.NewForConfig(e.Config)
	if err != nil {
		return nil, err
	}
	text, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the metrics of the API server: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("cannot parse the metrics of the API server: %w", err)
	}
	counts := map[string]int{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
			if labels["resource"] != "leases" {
				counts[labels["resource"]] += int(metric.GetCounter().GetValue())
			}
		}
	}
	return counts, nil
}
