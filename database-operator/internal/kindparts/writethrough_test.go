// SPDX-License-Identifier: Apache-2.0

package kindparts

import (
	"strings"
	"testing"
)

// An object counts the replicas, and its Application the pods.
func TestConvertCountsThePrimary(t *testing.T) {
	r := Replicated{Component: "redis", Field: "replicas", Whole: "a Redis"}
	for pods, want := range map[int64]any{3: int64(2), 1: int64(0), 0: nil} {
		got, err := r.Convert("components[redis].replicas", pods)
		if got != want || (err == nil) != (want != nil) {
			t.Errorf("%d pods are %v replicas, %v; want %v", pods, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "a Redis has 1 at least") {
			t.Errorf("it says %q", err)
		}
	}
	if got, err := r.Convert("version", "8.0"); got != "8.0" || err != nil {
		t.Errorf("the version is %v, %v", got, err)
	}
	// What is no number is none of pods.
	if got, err := r.Convert("components[redis].replicas", "3"); err == nil {
		t.Errorf("text is %v replicas", got)
	}
}
