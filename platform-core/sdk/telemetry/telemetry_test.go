// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func TestOutcomesAreCounted(t *testing.T) {
	telemetry.Outcome("test", outcome.Done())
	telemetry.Outcome("test", outcome.Done())
	telemetry.Outcome("test", outcome.Failed(errors.New("boom")))
	want := `
# HELP zeroinfra_reconcile_outcomes_total Reconciles by controller and by the kind of their outcome.
# TYPE zeroinfra_reconcile_outcomes_total counter
zeroinfra_reconcile_outcomes_total{controller="test",kind="done"} 2
zeroinfra_reconcile_outcomes_total{controller="test",kind="failed"} 1
`
	if err := testutil.GatherAndCompare(metrics.Registry.(prometheus.Gatherer), strings.NewReader(want),
		"zeroinfra_reconcile_outcomes_total"); err != nil {
		t.Error(err)
	}
}

func TestConditionsWantKnownTypes(t *testing.T) {
	scheme := testkit.Scheme(t, platformv1.AddToScheme)
	if _, err := telemetry.NewConditions(nil, scheme, &platformv1.Application{}); err != nil {
		t.Error(err)
	}
	if _, err := telemetry.NewConditions(nil, scheme, &corev1.Pod{}); err == nil {
		t.Error("a type that the scheme does not know was taken")
	}
}
