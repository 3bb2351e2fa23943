// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Where the engine names the primary, what pods report gives nobody else its label, and takes it from who is not named
// any more.
func TestOnlyTheNamedPodHasThePrimariesLabel(t *testing.T) {
	pod := func(ordinal int32, label, says string, health report.Health) rollout.Pod {
		return rollout.Pod{Name: "a-" + string('0'+ordinal), Ordinal: ordinal, Life: rollout.Alive, Ready: rollout.Ready,
			Role: label, Revision: "r1",
			Report: report.Report{Health: health, Role: says, ConfigDigest: "d1"}}
	}
	for name, tc := range map[string]struct {
		named string
		pods  []rollout.Pod
		steps []string
	}{
		"the named one": {"a-1", []rollout.Pod{pod(0, "replica", "replica", report.Healthy),
			pod(1, "", "primary", report.Healthy)},
			[]string{`SetRole a-1 "primary": it reports role "primary"`}},
		"another one that says so": {"a-1",
			[]rollout.Pod{pod(0, "", "primary", report.Healthy), pod(1, "primary", "primary", report.Healthy)}, nil},
		"the old one first": {"a-1", []rollout.Pod{pod(0, "primary", "primary", report.Healthy),
			pod(1, "", "primary", report.Healthy)},
			[]string{`SetRole a-0 "": it is not the primary`}},
		"the old one that does not answer": {"a-1",
			[]rollout.Pod{pod(0, "primary", "", report.Unhealthy), pod(1, "", "primary", report.Healthy)},
			[]string{`SetRole a-0 "": it is not the primary`}},
		"the primary's before others": {"a-1",
			[]rollout.Pod{pod(0, "", "replica", report.Healthy), pod(1, "", "primary", report.Healthy)},
			[]string{`SetRole a-1 "primary": it reports role "primary"`}},
		"others while it is about to write": {"a-1",
			[]rollout.Pod{pod(0, "", "replica", report.Healthy), pod(1, "replica", "replica", report.Healthy)}, nil},
		"others that have one, too": {"a-1",
			[]rollout.Pod{pod(0, "replica", "", report.Healthy), pod(1, "replica", "replica", report.Healthy)}, nil},
		"others when it writes": {"a-1", []rollout.Pod{pod(0, "", "replica", report.Healthy),
			pod(1, "primary", "primary", report.Healthy)},
			[]string{`SetRole a-0 "replica": it reports role "replica"`}},
		"others when it is not well": {"a-1",
			[]rollout.Pod{pod(0, "", "replica", report.Healthy), pod(1, "replica", "", report.Unhealthy)},
			[]string{`SetRole a-0 "replica": it reports role "replica"`}},
		"nobody": {"", []rollout.Pod{pod(0, "primary", "primary", report.Healthy),
			pod(1, "replica", "replica", report.Healthy)},
			[]string{`SetRole a-0 "": it is not the primary`}},
		"the named one that is down": {"a-0",
			[]rollout.Pod{pod(0, "primary", "", report.Unhealthy), pod(1, "replica", "replica", report.Healthy)}, nil},
	} {
		f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d1", Roles: roles,
			Authority: rollout.AuthorityEngine, Named: &tc.named,
			Promoting: true, Pods: tc.pods}
		var got []string
		for _, step := range rollout.Plan(f) {
			got = append(got, step.String())
		}
		if !slices.Equal(got, tc.steps) {
			t.Errorf("%s: got %q, want %q", name, got, tc.steps)
		}
	}
}

// TestOthersHaveTheirLabelsAfterAWhile: where a pod that was named does not come to write, readers have the others.
func TestOthersHaveTheirLabelsAfterAWhile(t *testing.T) {
	pod := func(ordinal int32, label string) rollout.Pod {
		return rollout.Pod{Name: "a-" + string('0'+ordinal), Ordinal: ordinal, Life: rollout.Alive, Ready: rollout.Ready,
			Role: label, Revision: "r1",
			Report: report.Report{Health: report.Healthy, Role: "replica", ConfigDigest: "d1"}}
	}
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d1", Roles: roles,
		Authority: rollout.AuthorityEngine, Named: new("a-1"),
		Pods: []rollout.Pod{pod(0, ""), pod(1, "replica")}}
	if steps := rollout.Plan(f); len(steps) != 1 ||
		steps[0].String() != `SetRole a-0 "replica": it reports role "replica"` {
		t.Errorf("the steps are %v", steps)
	}
	f.Promoting = true
	if steps := rollout.Plan(f); len(steps) != 0 {
		t.Errorf("a moment after it was named the steps are %v", steps)
	}
}

// TestWhoIsAboutToTakeOverHasNoLabelButThePrimaries, and meanwhile others keep what they have.
func TestWhoIsAboutToTakeOverHasNoLabelButThePrimaries(t *testing.T) {
	for name, tc := range map[string]struct {
		label, says string
		health      report.Health
		named       string
		want        []string
	}{
		"before": {"replica", "replica", report.Healthy, "",
			[]string{`SetRole a-1 "": it is about to take over`}},
		"before, without an answer": {"replica", "", report.Unhealthy, "",
			[]string{`SetRole a-1 "": it is about to take over`}},
		"until it writes": {"", "replica", report.Healthy, "a-1", nil},
		"once it writes": {"", "primary", report.Healthy, "a-1",
			[]string{`SetRole a-1 "primary": it reports role "primary"`}},
	} {
		f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d1", Roles: roles,
			Authority: rollout.AuthorityEngine, Named: &tc.named, Unlabelled: "a-1"}
		others := rollout.Pod{Name: "a-2", Ordinal: 2, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1",
			Role: "replica", Report: report.Report{Health: report.Healthy, ConfigDigest: "d1"}}
		f.Replicas, f.Pods = 3, []rollout.Pod{others}
		for ordinal, p := range []rollout.Pod{
			{Report: report.Report{Health: report.Healthy, Role: "replica"}, Role: "replica"},
			{Report: report.Report{Health: tc.health, Role: tc.says}, Role: tc.label}} {
			p.Name, p.Ordinal, p.Life, p.Ready, p.Revision, p.Report.ConfigDigest = "a-"+string(rune('0'+ordinal)),
				int32(ordinal), rollout.Alive, rollout.Ready, "r1", "d1"
			f.Pods = append(f.Pods, p)
		}
		var got []string
		for _, step := range rollout.Plan(f) {
			got = append(got, step.String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// While the primary changes no pod is taken out, however different it is from what is wanted.
func TestNothingIsTakenOutWhileThePrimaryChanges(t *testing.T) {
	f := rollout.Facts{Name: "a", Replicas: 1, Revision: "r2", ConfigDigest: "d2", RestartDigest: "s2", Roles: roles,
		Pods: []rollout.Pod{
			{Name: "a-0", Life: rollout.Alive, Ready: rollout.Ready, Role: "replica", Revision: "r1",
				Report: report.Report{Health: report.Healthy, Role: "replica", ConfigDigest: "d1"}},
			{Name: "a-1", Ordinal: 1, Life: rollout.Alive, Ready: rollout.Ready, Role: "replica", Revision: "r2",
				Report: report.Report{Health: report.Healthy, Role: "replica", ConfigDigest: "d2"}},
		}}
	if steps := rollout.Plan(f); len(steps) == 0 {
		t.Error("nothing is to do, so that the test shows nothing")
	}
	f.Busy = "the primary changes"
	if steps := rollout.Plan(f); len(steps) != 0 {
		t.Errorf("it does %v", steps)
	}
}
