// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// scaledIn is a set of two that is to have one: the engine has named pod 1, and pod 0 has none of its data.
func scaledIn() rollout.Facts {
	pod := func(name string, ordinal int32, role string) rollout.Pod {
		return rollout.Pod{Name: name, Ordinal: ordinal, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1",
			Role:   role,
			Report: report.Report{Health: report.Healthy, Role: role, ConfigDigest: "d1", RestartDigest: "s1"}}
	}
	return rollout.Facts{Name: "a", Replicas: 1, Revision: "r1", ConfigDigest: "d1", RestartDigest: "s1", Roles: roles,
		Authority:  rollout.AuthorityEngine,
		Switchover: rollout.BySwitchover, Named: new("a-1"),
		Pods: []rollout.Pod{pod("a-0", 0, "replica"), pod("a-1", 1, "primary")}}
}

// TestAPrimaryIsNotScaledInWithoutAnother: while the record names it and nobody else can take over, without it nobody
// writes.
func TestAPrimaryIsNotScaledInWithoutAnother(t *testing.T) {
	held := func(why string) []string {
		return []string{"Hold a-1: it is the primary, and no pod that is wanted can take over (" + why +
			"): it goes once one can; to keep it, scale back so that a-1 is wanted"}
	}
	noMember := held("not members, since they lack data: a-0")
	for name, tc := range map[string]struct {
		change func(f *rollout.Facts)
		want   []string
	}{
		"it works":               {func(*rollout.Facts) {}, noMember},
		"others were waited for": {func(f *rollout.Facts) { f.Candidates = rollout.CandidateExpected }, noMember},
		"it is broken": {func(f *rollout.Facts) {
			f.Pods[1].Ready, f.Pods[1].Report.Health = rollout.NotReady,
				report.Unhealthy
		}, noMember},
		"it has yet to write": {func(f *rollout.Facts) { f.Pods[1].Role, f.Pods[1].Report.Role = "replica", "replica" },
			noMember},
		"its ordinal is excluded": {func(f *rollout.Facts) {
			f.Pods[0].Ordinal, f.Pods[1].Ordinal, f.Excluded = 1, 0,
				[]int32{0}
		}, noMember},
		"both are broken": {func(f *rollout.Facts) {
			f.Pods[0].Ready, f.Pods[1].Ready, f.Pods[0].Candidacy = rollout.NotReady, rollout.NotReady, rollout.CanTakeOver
		}, held("unhealthy: a-0")},
		"the other is being made": {func(f *rollout.Facts) { f.Pods[1].Ready, f.Pods = rollout.NotReady, f.Pods[1:] },
			slices.Concat([]string{"CreatePod a-0: the pod is missing"}, held("none is there"))},
		"another that is not wanted goes before": {func(f *rollout.Facts) {
			other := f.Pods[0]
			other.Name, other.Ordinal, other.Candidacy = "a-2", 2, rollout.CanTakeOver
			f.Pods = append(f.Pods, other)
		}, []string{"DeletePod a-2: only 1 pods are wanted"}},
		"another before one that has yet to write": {func(f *rollout.Facts) {
			f.Pods[1].Role, f.Pods[1].Report.Role = "", "replica"
			f.Pods = append(f.Pods, f.Pods[1])
			f.Pods[1].Role, f.Pods[2].Name, f.Pods[2].Ordinal, f.Named, f.Promoting = "replica", "a-2", 2, new("a-2"), true
		}, []string{"DeletePod a-1: only 1 pods are wanted"}},
		"the other needs a change": {func(f *rollout.Facts) { f.ConfigDigest, f.RestartDigest = "d2", "s2" },
			[]string{"PushPlan a-0: its configuration changed"}},
		"it is asked to hand over": {func(f *rollout.Facts) { f.Request.From = "a-1" }, noMember},
		"the other can take over": {func(f *rollout.Facts) { f.Pods[0].Candidacy = rollout.CanTakeOver },
			[]string{"SwitchOver a-1 to a-0: it is the primary, and only 1 pods are wanted"}},
		"the other is named": {func(f *rollout.Facts) {
			f.Named, f.Pods[0].Role, f.Pods[0].Report.Role, f.Pods[1].Role, f.Pods[1].Report.Role = new("a-0"), "primary",
				"primary", "replica", "replica"
		}, []string{"DeletePod a-1: only 1 pods are wanted"}},
		"no pod is wanted, the other first": {func(f *rollout.Facts) { f.Replicas = 0 },
			[]string{"DeletePod a-0: only 0 pods are wanted"}},
		"no pod is wanted": {func(f *rollout.Facts) { f.Replicas, f.Pods = 0, f.Pods[1:] },
			[]string{"DeletePod a-1: only 0 pods are wanted"}},
		"it is to stop": {func(f *rollout.Facts) { f.Mode, f.Pods = rollout.Stopped, f.Pods[1:] },
			[]string{"DeletePod a-1: the set is to stop"}},
		"it is over": {func(f *rollout.Facts) { f.Pods[1].Life = rollout.Ended },
			[]string{"DeletePod a-1: only 1 pods are wanted"}},
		// There its end has the middleware choose another one.
		"the middleware chooses": {func(f *rollout.Facts) { f.Named = nil },
			[]string{"DeletePod a-1: only 1 pods are wanted"}},
	} {
		f := scaledIn()
		tc.change(&f)
		var got []string
		for _, step := range rollout.Plan(f) {
			got = append(got, step.String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// What is held is not forecast: it takes somebody else to come about.
func TestTheEndOfALastPrimaryIsNotForecast(t *testing.T) {
	if steps := rollout.Forecast(scaledIn()); len(steps) > 0 {
		t.Errorf("it is forecast that %v", steps)
	}
}
