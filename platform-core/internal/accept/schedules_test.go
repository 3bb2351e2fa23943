// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/render"
)

func TestSchedules(t *testing.T) {
	bundle := &plugin.Bundle{
		Manifest: plugin.Manifest{Name: "redis", Version: "1.0.0"},
		Operations: map[string]optemplate.Template{"Reviewed": {Name: "Reviewed", Steps: []optemplate.Step{
			{Name: "review", Approval: &optemplate.ApprovalStep{Message: "please"}},
		}}},
	}
	for name, tc := range map[string]struct {
		change       func(*platformv1.Schedule)
		reason, says string
	}{
		"good": {func(*platformv1.Schedule) {}, "", ""},
		"with a parameter": {func(s *platformv1.Schedule) {
			s.Operation.Parameters = platformv1.Parameters{"tempo": "slow"}
		}, platformv1.ReasonInvalidParameters, `schedules[0] "nightly": operation: `},
		"a day that never comes": {func(s *platformv1.Schedule) { s.Schedule = "0 0 30 2 *" },
			platformv1.ReasonInvalidSpec, `schedules[0] "nightly": schedule "0 0 30 2 *" is not valid: it names a day ` +
				"that never comes"},
		"no template": {func(s *platformv1.Schedule) { s.Operation.TemplateRef = "Dance" },
			platformv1.ReasonTemplateNotFound, `"Dance"`},
		"one that waits for people": {func(s *platformv1.Schedule) { s.Operation.TemplateRef = "Reviewed" },
			platformv1.ReasonInvalidSpec, `template "Reviewed" waits for somebody else`},
		"a timeout that is negative": {func(s *platformv1.Schedule) {
			s.Operation.Timeout = &metav1.Duration{Duration: -time.Second}
		}, platformv1.ReasonInvalidSpec, "timeout -1s is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			app.Spec.Schedules = []platformv1.Schedule{
				{Name: "nightly", Schedule: "0 2 * * *", TimeZone: "UTC",
					Operation: platformv1.ScheduledOperation{TemplateRef: "Restart"}}}
			tc.change(&app.Spec.Schedules[0])
			expect(t, render.Join(schedules(app, Facts{State: plugin.State{Bundle: bundle}})), tc.reason, tc.says)
		})
	}
}
