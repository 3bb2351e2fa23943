// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestTimesOfOneOpeningAreOne, also where all that were missed are made up for: of several that wait for the same
// window the latest counts.
func TestTimesOfOneOpeningAreOne(t *testing.T) {
	weekly := []time.Time{}
	// The first of January 2026 is a Thursday: the window opens on the 4th, the 11th and the 18th.
	for _, day := range []int{4, 11, 18} {
		weekly = append(weekly, time.Date(2026, 1, day, 1, 0, 0, 0, time.UTC))
	}
	for name, tc := range map[string]struct {
		away  time.Duration
		limit *int32
		want  []time.Time
	}{
		"always there":                   {0, nil, weekly},
		"away for two weeks":             {14 * 24 * time.Hour, nil, weekly},
		"away for two weeks, the latest": {14 * 24 * time.Hour, new(int32(1)), weekly[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "UTC", "0 1 * * *")
			w.spec().MissedRuns, w.spec().MissedLimit, w.spec().Concurrency = platformv1.MissedAll, tc.limit,
				platformv1.ConcurrencyQueue
			w.app.Spec.Maintenance = &platformv1.Maintenance{
				Windows: []platformv1.MaintenanceWindow{
					{Schedule: "0 2 * * 0", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC"}}}
			w.live(begin.Add(time.Hour / 2))
			w.now = w.now.Add(tc.away)
			w.live(begin.AddDate(0, 0, 20))
			if !slices.EqualFunc(w.times, tc.want, time.Time.Equal) {
				t.Errorf("it runs for %v, want %v", w.times, tc.want)
			}
		})
	}
}
