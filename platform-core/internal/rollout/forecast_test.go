// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/internal/rollout"
)

// A forecast names the steps that the planner then takes, in this order, whatever changes.
func TestForecastsComeTrue(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"nothing":       func(*world) {},
		"template":      func(w *world) { w.Revision = "r2" },
		"configuration": func(w *world) { w.ConfigDigest, w.RestartDigest = "d2", "s2" },
		"reload":        func(w *world) { w.ConfigDigest = "d2" },
		"more":          func(w *world) { w.Replicas = 5 },
		"fewer":         func(w *world) { w.Replicas = 1 },
		"stop":          func(w *world) { w.Mode = rollout.Stopped },
		"window":        func(w *world) { w.Revision = "r2" },
	} {
		for _, switchover := range []rollout.Switchover{rollout.NoSwitchover, rollout.BySwitchover} {
			t.Run(name+string(switchover), func(t *testing.T) {
				w := newWorld(3, "r1", "d1")
				w.Switchover, w.Authority = switchover, ""
				w.settle(t)
				change(w)
				w.grow()
				var forecast, taken []string
				closed := w.Facts
				closed.Window = rollout.Closed
				for _, step := range rollout.Forecast(closed) {
					forecast = append(forecast, step.String())
				}
				for range 50 {
					w.grow()
					for _, step := range rollout.Plan(w.Facts) {
						// A pod that is deleted is made again: a forecast takes that as one.
						again := step.Action == rollout.CreatePod &&
							slices.ContainsFunc(taken, func(s string) bool { return s[:9] == "DeletePod" && containsPod(s, step.Pod) })
						if step.Action != rollout.SetRole && step.Action != rollout.Hold && !again &&
							!slices.Contains(taken, step.String()) {
							taken = append(taken, step.String())
						}
						w.take(step)
					}
				}
				if !slices.Equal(forecast, taken) {
					t.Errorf("forecast:\n%q\ntaken:\n%q", forecast, taken)
				}
			})
		}
	}
}

func containsPod(step, pod string) bool {
	return len(step) > 10+len(pod) && step[10:10+len(pod)] == pod
}
