// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// chosen is the pod that the middleware has write: the first of those wanted, and where it can hand over the one that
// it was handed to for as long as that works.
func (w *world) chosen() string {
	first := ""
	if ordinals := w.Ordinals(); len(ordinals) > 0 {
		first = platformv1.PodNameFor(w.Name, ordinals[0])
	}
	if w.Switchover == rollout.NoSwitchover {
		return first
	}
	works := func(p rollout.Pod) bool { return p.Life == rollout.Alive && !w.breaks[p.Revision] }
	if !slices.ContainsFunc(w.Pods, func(p rollout.Pod) bool { return p.Name == w.primary && works(p) }) {
		w.primary = first
		if i := slices.IndexFunc(w.Pods, works); i >= 0 {
			w.primary = w.Pods[i].Name
		}
	}
	if w.Handover.To == w.primary {
		w.Handover = rollout.Handover{}
	}
	return w.primary
}

// handOver has the middleware choose another primary, or not.
func (w *world) handOver(step rollout.Step) {
	switch {
	case !w.deaf:
		w.Handover = rollout.Handover{From: step.Pod, To: step.To, State: rollout.HandoverUnderway}
		w.primary = step.To
	case w.Handover.State == rollout.HandoverUnderway:
		w.Handover.State, w.Handover.Problem = rollout.HandoverFailed, "action \"move-leader\" failed"
	default:
		w.Handover = rollout.Handover{From: step.Pod, To: step.To, State: rollout.HandoverUnderway}
	}
}

// lastPrimary is a story of a set whose primary is not wanted any more while nobody else has its data, with an end.
func lastPrimary(end change) []change {
	return []change{
		{"the engine names who writes, and pod 2 is to take over", func(w *world) {
			w.Named, w.Request = new(w.primary), rollout.Request{From: w.primary, To: w.Pods[2].Name}
		}},
		{"two pods are wanted, and neither has the data", func(w *world) {
			w.Request, w.Replicas, w.behind = rollout.Request{}, 2, map[string]bool{w.Pods[0].Name: true, w.Pods[1].Name: true}
		}},
		{"the configuration changes", func(w *world) { w.ConfigDigest, w.RestartDigest = "d2", "s2" }},
		end,
	}
}

func TestGoldenSwitchovers(t *testing.T) {
	stories := map[string][]change{
		"new-template": {{"the template changes", func(w *world) { w.Revision = "r2" }}},
		"new-configuration": {{"the configuration changes",
			func(w *world) { w.ConfigDigest, w.RestartDigest = "d2", "s2" }}},
		"new-image":     {{"the image changes", func(w *world) { w.image = "i2" }}},
		"new-resources": {{"the resources change", func(w *world) { w.resources = "2Gi" }}},
		"dynamic-parameters": {{"a part of the configuration that a reload takes over changes",
			func(w *world) { w.ConfigDigest = "d2" }}},
		"all-at-once": {{"template, image, resources and configuration change",
			func(w *world) { w.Revision, w.image, w.resources, w.ConfigDigest = "r2", "i2", "2Gi", "d2" }}},
		"primary-is-removed": {{"the primary's ordinal is excluded and one pod is wanted",
			func(w *world) { w.Excluded, w.Replicas = []int32{0}, 1 }}},
		"primary-is-replaced": {{"the primary's ordinal is excluded, and three pods are wanted still",
			func(w *world) { w.Excluded = []int32{0} }}},
		"stop": {{"it is to stop", func(w *world) { w.Mode = rollout.Stopped }}},
		"one-pod": {
			{"one pod is wanted", func(w *world) { w.Replicas = 1 }},
			{"the template changes", func(w *world) { w.Revision = "r2" }},
		},
		"refused": {
			{"nobody hands over, and the configuration changes",
				func(w *world) { w.deaf, w.ConfigDigest, w.RestartDigest = true, "d2", "s2" }},
			{"it is mended, and the configuration changes again", func(w *world) {
				w.deaf, w.Handover, w.ConfigDigest, w.RestartDigest = false, rollout.Handover{}, "d3", "s3"
			}},
		},
		"primary-breaks": {
			{"nobody hands over, and the configuration changes",
				func(w *world) { w.deaf, w.ConfigDigest, w.RestartDigest = true, "d2", "s2" }},
			{"the primary breaks", func(w *world) {
				w.Pods[0].Revision, w.breaks["r0"] = "r0", true
			}},
		},
		"asked": {
			{"it is asked to hand over", func(w *world) { w.Request.From = w.primary }},
			{"another pod writes, and nobody has taken the request back", nil},
			{"the new primary is asked to hand over to pod 2",
				func(w *world) { w.Request = rollout.Request{From: w.primary, To: w.Pods[2].Name} }},
			{"it is asked for a pod that is not there",
				func(w *world) { w.Request = rollout.Request{From: w.primary, To: "redis-a-redis-main-9"} }},
			{"the template changes meanwhile", func(w *world) { w.Revision = "r2" }},
			{"the request is taken back", func(w *world) { w.Request = rollout.Request{} }},
			{"it is asked again, and nobody hands over", func(w *world) { w.deaf, w.Request.From = true, w.primary }},
			{"the request is taken back, and the template changes", func(w *world) {
				w.deaf, w.Handover, w.Request, w.Revision = false, rollout.Handover{}, rollout.Request{}, "r3"
			}},
		},
		"last-primary-stays": lastPrimary(change{"the others have caught up", func(w *world) { w.behind = nil }}),
		"last-primary-is-back": lastPrimary(
			change{"three pods are wanted again, and the others have caught up",
				func(w *world) { w.Replicas, w.behind = 3, nil }}),
		"last-primary-goes-with-all": lastPrimary(change{"no pod is wanted", func(w *world) { w.Replicas = 0 }}),
		"last-primary-stops":         lastPrimary(change{"it is to stop", func(w *world) { w.Mode = rollout.Stopped }}),
		"bad-template-is-mended": {
			{"the template changes to one that never becomes ready", func(w *world) { w.Revision, w.breaks["r2"] = "r2", true }},
			{"the template is mended", func(w *world) { w.Revision = "r3" }},
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld(3, "r1", "d1")
			w.Switchover, w.Authority = rollout.BySwitchover, ""
			w.settle(t)
			for _, change := range story {
				w.say("%s", change.what)
				if change.do != nil {
					change.do(w)
				}
				w.settle(t)
			}
			golden(t, filepath.Join("testdata", "switchover", name+".golden"), w.log.String())
		})
	}
}

func TestPrimaryIsHeldWhileItIsNotClearWhoWrites(t *testing.T) {
	pod := func(name string, ordinal int32, role, digest string) rollout.Pod {
		return rollout.Pod{Name: name, Ordinal: ordinal, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1",
			Role: role, Candidacy: rollout.CanTakeOver,
			Report: report.Report{Health: report.Healthy, Role: role, ConfigDigest: digest}}
	}
	f := rollout.Facts{Name: "a", Replicas: 3, Revision: "r1", ConfigDigest: "d2", Roles: roles,
		Switchover: rollout.BySwitchover,
		Handover:   rollout.Handover{From: "a-0", To: "a-2", State: rollout.HandoverUnderway}}
	for _, test := range []struct {
		what string
		pods []rollout.Pod
		want string
	}{
		{"none changed but the one that was asked before",
			[]rollout.Pod{pod("a-0", 0, "primary", "d1"), pod("a-1", 1, "replica", "d2"), pod("a-2", 2, "replica", "d2")},
			"SwitchOver a-0 to a-2: it is the primary, and its configuration changed"},
		{"the old one has given up, the new one has not begun",
			[]rollout.Pod{pod("a-0", 0, "replica", "d1"), pod("a-1", 1, "replica", "d2"), pod("a-2", 2, "replica", "d2")},
			"Hold a-0: it is no longer the primary, and no pod reports yet that it is"},
		{"both say so", []rollout.Pod{pod("a-0", 0, "primary", "d1"), pod("a-1", 1, "replica", "d2"),
			pod("a-2", 2, "primary", "d2")},
			"Hold a-0: a-2 reports that it is the primary as well"},
		{"the new one writes", []rollout.Pod{pod("a-0", 0, "replica", "d1"), pod("a-1", 1, "replica", "d2"),
			pod("a-2", 2, "primary", "d2")},
			"PushPlan a-0: its configuration changed"},
	} {
		f.Pods = test.pods
		steps := rollout.Plan(f)
		if len(steps) != 1 || steps[0].String() != test.want {
			t.Errorf("%s: got %v, want %s", test.what, steps, test.want)
		}
	}
	// The plugin rules the one out that was asked, and prefers nobody else that has yet to change.
	f.Pods = []rollout.Pod{pod("a-0", 0, "primary", "d1"), pod("a-1", 1, "replica", "d2"), pod("a-2", 2, "replica", "d2")}
	f.Pods[2].Candidacy = rollout.Unfit
	if steps := rollout.Plan(f); len(steps) != 1 || steps[0].To != "a-1" {
		t.Errorf("got %v", steps)
	}
	f.Pods[1].Candidacy = rollout.Unfit
	if steps := rollout.Plan(f); len(steps) != 1 || steps[0].Action != rollout.PushPlan {
		t.Errorf("with nobody who could take over: %v", steps)
	}
	f.Candidates = rollout.CandidateExpected
	if steps := rollout.Plan(f); len(steps) != 1 ||
		steps[0].String() != "Hold a-0: it is the primary, and no other pod has caught up far enough to take over" {
		t.Errorf("with some who soon can: %v", steps)
	}
}
