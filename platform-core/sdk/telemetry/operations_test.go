// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestOperationsAreCounted(t *testing.T) {
	after := failedRestart()
	running := after.DeepCopy()
	running.Status.Phase, running.Status.CompletionTime = platformv1.OperationRunning, nil
	running.Status.Steps[1].Attempts = 1
	Operation(&platformv1.Operation{}, running)
	Operation(running, after)
	// What is written again without news counts nothing.
	Operation(after, after)
	// A user can ask for anything: what was not found is no label.
	refused := failedRestart()
	refused.Spec.TemplateRef, refused.Status.Steps, refused.Status.StartTime = "Anything", nil, nil
	Operation(&platformv1.Operation{}, refused)

	want := `
# HELP zeroinfra_operation_phases_total Operations that came to a phase, by domain and template.
# TYPE zeroinfra_operation_phases_total counter
zeroinfra_operation_phases_total{domain="database",phase="Failed",template="Restart",trigger="User"} 1
zeroinfra_operation_phases_total{domain="database",phase="Failed",template="unknown",trigger="User"} 1
zeroinfra_operation_phases_total{domain="database",phase="Running",template="Restart",trigger="User"} 1
`
	if err := testutil.CollectAndCompare(operationPhases, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(operationRetries.WithLabelValues("database", "Restart")); got != 2 {
		t.Errorf("%v retries", got)
	}
	if got := testutil.CollectAndCount(operationDuration); got != 1 {
		t.Errorf("%d series of durations", got)
	}
}
