// SPDX-License-Identifier: Apache-2.0

// Package telemetry holds the metrics that the SDK itself keeps, beside those of
// controller-runtime, and the keys of structured logs.
//
//	zeroinfra_reconcile_outcomes_total{controller,kind}  reconciles by their outcome: done, waiting, stalled, failed
//	zeroinfra_condition{kind,type,status}                objects by the status of each of their conditions
//	zeroinfra_build_info{domain,version}                 1
package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Keys of structured logs, beside those that controller-runtime sets itself.
const (
	// KeyDomain is the domain that the operator serves.
	KeyDomain = "domain"
	// KeyVersion is the version of the operator.
	KeyVersion = "version"
	// KeyNamespace is the namespace of the operator.
	KeyNamespace = "operatorNamespace"
	// KeyReason is the reason of an outcome.
	KeyReason = "reason"
	// KeyCRD is the name of a CustomResourceDefinition.
	KeyCRD = "crd"
	// KeyRevision is the revision of a CustomResourceDefinition.
	KeyRevision = "revision"
)

var (
	outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "zeroinfra_reconcile_outcomes_total",
		Help: "Reconciles by controller and by the kind of their outcome.",
	}, []string{"controller", "kind"})

	buildInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "zeroinfra_build_info",
		Help: "1, with the domain and the version of the operator.",
	}, []string{"domain", "version"})
)

// Registering here, once for each process, is how controller-runtime's registry is meant to be used.
func init() { metrics.Registry.MustRegister(outcomes, buildInfo) }

// Outcome counts the outcome of one reconcile of a controller.
func Outcome(controller string, o outcome.Outcome) {
	outcomes.WithLabelValues(controller, o.Kind().String()).Inc()
}

// Build publishes what runs here.
func Build(domain, version string) { buildInfo.WithLabelValues(domain, version).Set(1) }
