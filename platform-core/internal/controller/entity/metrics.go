// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var repairs = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "zeroinfra_entity_drift_repairs_total",
	Help: "Objects inside middleware that were found changed beside their Entity and were put right, by type.",
}, []string{"type"})

// Registering here, once for each process, is how controller-runtime's registry is meant to be used.
func init() { metrics.Registry.MustRegister(repairs) }
