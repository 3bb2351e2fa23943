// SPDX-License-Identifier: Apache-2.0

// Package telemetry holds the metrics that the SDK itself keeps, beside those of
// controller-runtime, the traces of Operations, and the keys of structured logs.
//
//	zeroinfra_reconcile_outcomes_total{controller,kind}  reconciles by their outcome: done, waiting, stalled, failed
//	zeroinfra_condition{kind,type,status}                objects by the status of each of their conditions
//	zeroinfra_application_…{namespace,application}       what the status of each Application says: see Instances
//	zeroinfra_operation_phases_total{domain,template,trigger,phase}     Operations that came to a phase
//	zeroinfra_operation_duration_seconds{domain,template,phase}         time from the first step to the end
//	zeroinfra_operation_step_retries_total{domain,template}             steps that were begun again
//	zeroinfra_build_info{domain,version}                 1
//	zeroinfra_setting{name}                              the settings that are numbers, as they are in effect
//	zeroinfra_settings_refused                           1 while the settings in the ConfigMap cannot be used, else 0
//	zeroinfra_undecodable_objects{kind,namespace,name}   1 for each object that cannot be decoded and is not reconciled
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

	setting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "zeroinfra_setting",
		Help: "The settings of the operator that are numbers, as they are in effect.",
	}, []string{"name"})

	settingsRefused = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "zeroinfra_settings_refused",
		Help: "1 while the settings in the ConfigMap of the operator cannot be used, else 0.",
	})

	undecodable = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "zeroinfra_undecodable_objects",
		Help: "1 for each object that cannot be decoded and is not reconciled; the log of the operator names the field.",
	}, []string{"kind", "namespace", "name"})
)

// Registering here, once for each process, is how controller-runtime's registry is meant to be used.
func init() {
	metrics.Registry.MustRegister(outcomes, buildInfo, setting, settingsRefused, undecodable)
	metrics.Registry.MustRegister(operationPhases, operationDuration, operationRetries)
}

// Outcome counts the outcome of one reconcile of a controller.
func Outcome(controller string, o outcome.Outcome) {
	outcomes.WithLabelValues(controller, o.Kind().String()).Inc()
}

// Build publishes what runs here.
func Build(domain, version string) { buildInfo.WithLabelValues(domain, version).Set(1) }

// SettingsAccepted publishes that the settings in the ConfigMap can be used.
func SettingsAccepted() { settingsRefused.Set(0) }

// SettingsUsed publishes settings that took effect.
func SettingsUsed(numbers map[string]float64) {
	for name, number := range numbers {
		setting.WithLabelValues(name).Set(number)
	}
}

// SettingsRefused publishes that the settings in the ConfigMap cannot be used.
func SettingsRefused() { settingsRefused.Set(1) }

// Undecodable publishes that an object cannot be decoded.
func Undecodable(kind, namespace, name string) {
	undecodable.WithLabelValues(kind, namespace, name).Set(1)
}

// Decodable publishes that an object which could not be decoded can be now, or is gone.
func Decodable(kind, namespace, name string) { undecodable.DeleteLabelValues(kind, namespace, name) }
