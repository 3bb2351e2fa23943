// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operation

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// measured is what the metrics of this program say of Operations of a template: each counter, and how many durations
// there were and their sum, by name and phase.
func measured(t *testing.T, template string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), "zeroinfra_operation_")
		for _, metric := range family.GetMetric() {
			if !ours || !hasLabel(metric, "template", template) || !hasLabel(metric, "domain", testDomain) {
				continue
			}
			if key := strings.TrimSpace(name + " " + phaseOf(metric)); metric.Histogram != nil {
				all[key] += float64(metric.Histogram.GetSampleCount())
				all[key+" sum"] += metric.Histogram.GetSampleSum()
			} else {
				all[key] += metric.GetCounter().GetValue()
			}
		}
	}
	return all
}

func phaseOf(metric *dto.Metric) string {
	for _, label := range metric.GetLabel() {
		if label.GetName() == "phase" {
			return label.GetValue()
		}
	}
	return ""
}

// metered waits until the metrics say this since a time before: in it one Operation of its template ran. The controller
// counts what it has written.
func metered(t *testing.T, op *platformv1.Operation, before, want map[string]float64) {
	t.Helper()
	took := op.Status.CompletionTime.Sub(op.Status.StartTime.Time).Seconds()
	sum := fmt.Sprintf("duration_seconds %s sum", op.Status.Phase)
	testkit.Eventually(t, "the metrics of "+op.Name, func(context.Context) error {
		got := measured(t, op.Spec.TemplateRef)
		for name, value := range before {
			got[name] -= value
		}
		// What is stored has whole seconds.
		if math.Abs(got[sum]-took) > 1 {
			return fmt.Errorf("it took %v s, and the metric says %v", took, got[sum])
		}
		maps.DeleteFunc(got, func(name string, value float64) bool {
			// It may have had to wait for its turn.
			return value == 0 || name == sum || name == "phases_total Pending"
		})
		if !maps.Equal(got, want) {
			return fmt.Errorf("they say %v, want %v", got, want)
		}
		return nil
	})
}

// The controller counts what becomes of an Operation, how long it took, and how often a step of it was begun again.
func TestOperationsAreMeasured(t *testing.T) {
	f := newFixture(t, 1)
	f.has("name: Amend\nsteps:\n  - {name: amend, patch: {apiVersion: v1, kind: ConfigMap, name: note, content: {data: " +
		"{a: b}}}}\n")
	f.controller(nil)

	before := measured(t, "Reload")
	failed := f.operation("failed", "Reload", nil)
	f.waitPhase(failed, platformv1.OperationFailed)
	metered(t, failed, before, map[string]float64{"phases_total Running": 1, "phases_total Failed": 1,
		"duration_seconds Failed": 1})

	before = measured(t, "Amend")
	acting := f.account()
	amended := f.operation("amended", "Amend", func(op *platformv1.Operation) {
		acting(op)
		op.Spec.Retry = &platformv1.OperationRetry{Limit: 20, Backoff: &metav1.Duration{Duration: time.Second}}
	})
	testkit.WaitFor(t, env.Client, amended, "another attempt", func() error {
		if len(amended.Status.Steps) == 0 || amended.Status.Steps[0].NextAttemptTime == nil {
			return fmt.Errorf("it is %+v", amended.Status)
		}
		return nil
	})
	f.create(f.configMap("note"))
	f.waitPhase(amended, platformv1.OperationSucceeded)
	again := float64(amended.Status.Steps[0].Attempts - 1)
	if again < 1 {
		t.Errorf("it came in %v further attempts", again)
	}
	metered(t, amended, before, map[string]float64{"phases_total Running": 1, "phases_total Succeeded": 1,
		"duration_seconds Succeeded": 1, "step_retries_total": again})
}
