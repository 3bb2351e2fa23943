// SPDX-License-Identifier: Apache-2.0

// Package metrics reads how busy an operator is from its metrics.
package metrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Work is what the controllers of an operator have done and have yet to do.
type Work struct {
	// Queued objects, and Active ones, which a worker has.
	Queued, Active int
	// Reconciled counts the reconciles since the start.
	Reconciled int
}

// Idle says whether there is nothing to do at this moment.
func (w Work) Idle() bool { return w.Queued == 0 && w.Active == 0 }

// Read asks the operator at an address.
func Read(ctx context.Context, address string) (Work, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return Work{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Work{}, fmt.Errorf("cannot read the operator's metrics: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", response.Status)
	}
	if err != nil {
		return Work{}, fmt.Errorf("cannot read the operator's metrics: %w", err)
	}
	return parse(body)
}

func parse(text []byte) (Work, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return Work{}, fmt.Errorf("cannot parse the operator's metrics: %w", err)
	}
	var work Work
	for name, field := range map[string]*int{
		"workqueue_depth":                    &work.Queued,
		"controller_runtime_active_workers":  &work.Active,
		"controller_runtime_reconcile_total": &work.Reconciled,
	} {
		family, found := families[name]
		if !found {
			return Work{}, fmt.Errorf("the operator's metrics lack %s: its controllers have not started", name)
		}
		*field = int(sum(family))
	}
	return work, nil
}

func sum(family *dto.MetricFamily) (total float64) {
	for _, metric := range family.GetMetric() {
		total += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
	}
	return total
}
