// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// unknown is the template of an Operation that never began: what a user wrote there can be anything.
const unknown = "unknown"

// inline stands for the templates that Operations bring along.
const inline = "Inline"

var (
	operationPhases = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "zeroinfra_operation_phases_total",
		Help: "Operations that came to a phase, by domain and template.",
	}, []string{"domain", "template", "trigger", "phase"})

	operationDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "zeroinfra_operation_duration_seconds",
		Help:    "Time from the first step of an Operation to its end, by domain, template and the phase that it ended in.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
	}, []string{"domain", "template", "phase"})

	operationRetries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "zeroinfra_operation_step_retries_total",
		Help: "Steps of Operations that were begun again, by domain and template.",
	}, []string{"domain", "template"})
)

// Operation counts what one write of its status says of an Operation.
func Operation(before, after *platformv1.Operation) {
	domain, template := after.Labels[platformv1.DomainLabel], templateOf(after)
	if phase := after.Status.Phase; phase != before.Status.Phase {
		operationPhases.WithLabelValues(domain, template, triggerOf(after), string(phase)).Inc()
	}
	if retries := attempts(after) - attempts(before); retries > 0 {
		operationRetries.WithLabelValues(domain, template).Add(float64(retries))
	}
	if s := &after.Status; s.CompletionTime != nil && before.Status.CompletionTime == nil && s.StartTime != nil {
		operationDuration.WithLabelValues(domain, template, string(s.Phase)).Observe(
			s.CompletionTime.Sub(s.StartTime.Time).Seconds())
	}
}

// templateOf returns the name of the template without the plugin that it is from. Only one that was found has steps,
// and of those there are no more than plugins declare.
func templateOf(op *platformv1.Operation) string {
	if len(op.Status.Steps) == 0 {
		return unknown
	}
	if op.Spec.Template != "" {
		return inline
	}
	return op.Spec.TemplateRef[strings.LastIndex(op.Spec.TemplateRef, "/")+1:]
}

// triggerOf returns the trigger, when it is one that there is.
func triggerOf(op *platformv1.Operation) string {
	if op.Status.Trigger == "" {
		return string(platformv1.TriggerUser)
	}
	return string(op.Status.Trigger)
}

// attempts counts the times that steps were begun after their first.
func attempts(op *platformv1.Operation) int32 {
	var again int32
	for i := range op.Status.Steps {
		again += max(0, op.Status.Steps[i].Attempts-1)
	}
	return again
}
