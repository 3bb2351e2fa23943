// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func TestWhatWaitsIsNamed(t *testing.T) {
	f := verdictOn(nil, rollout.Facts{})
	f.Facts.Opening = maintenance.Opening{Time: time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)}
	step := func(action rollout.Action, pods ...int) []rollout.Step {
		var steps []rollout.Step
		for _, pod := range pods {
			steps = append(steps, rollout.Step{Action: action, Pod: fmt.Sprintf("a-%d", pod)})
		}
		return steps
	}
	for want, held := range map[string][]rollout.Step{
		"pod a-0 is to be replaced":                                  step(rollout.DeletePod, 0),
		"pods a-0 and a-1 are to be restarted":                       step(rollout.PushPlan, 0, 1),
		"pods a-0, a-1, a-2, a-3, a-4 and 2 more are to be replaced": step(rollout.DeletePod, 0, 1, 2, 3, 4, 5, 6),
		"pod a-1 is to be replaced, pod a-0 is to be restarted": append(step(rollout.PushPlan, 0),
			step(rollout.DeletePod, 1)...),
		"pods a-0, a-1 and a-2 are to be restarted with another image": step(rollout.UpdateImage, 0, 1, 2),
		"pods a-0, a-1, a-2, a-3 and a-4 are to be restarted":          step(rollout.PushPlan, 0, 1, 2, 3, 4),
	} {
		o := AwaitWindow(f, held)
		if want := "waits for the maintenance window, next 2026-11-22T02:00Z (UTC): " + want; o.Message() != want ||
			o.Kind() != outcome.KindDeferred {
			t.Errorf("it says %q, want %q", o.Message(), want)
		}
	}
}
