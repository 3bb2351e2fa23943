// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// failovers counts primaries that were deposed, and named.
	failovers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "zeroinfra_primary_changes_total",
		Help: "Primaries that the engine deposed and named.",
	}, []string{"change"})
	// failoverSeconds is how long nobody was named.
	failoverSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "zeroinfra_primary_vacancy_seconds",
		Help:    "Time from when a primary was deposed until the next one was named.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 5, 8, 10, 15, 30, 60, 300},
	})
)

func init() { metrics.Registry.MustRegister(failovers, failoverSeconds) }
