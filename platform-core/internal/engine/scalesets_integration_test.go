// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// An Operation brings another number of sets, and with them their pods; the Application declares them from then on.
func TestAnOperationScalesTheSets(t *testing.T) {
	_, app := standing(t, "tiers")
	for _, c := range []struct {
		sets string
		want []string
	}{{"3", []string{"a-db-0", "a-db-1", "a-db-2", "a-web-main"}}, {"1", []string{"a-db-0", "a-web-main"}}} {
		done := ends(t, operate(t, app, "sets-"+c.sets, "HorizontalScale", nil, "component", "db", "sets", c.sets),
			platformv1.OperationSucceeded)
		if says := done.Steps[0].Outputs["changed"]; !strings.Contains(says, "→ "+c.sets+" of them") {
			t.Errorf("it says %q", says)
		}
		wait(t, app, &platformv1.WorkloadSetList{}, c.want...)
	}
	refused := ends(t, operate(t, app, "sets-4", "HorizontalScale", nil, "component", "db", "sets", "4"),
		platformv1.OperationFailed)
	if !strings.Contains(refused.Error, "3") {
		t.Errorf("it says %q", refused.Error)
	}
}
