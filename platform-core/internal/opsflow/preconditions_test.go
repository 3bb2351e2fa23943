// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// The engine's own upgrade begins where all pods are healthy and follow the one that writes, and says of each what is
// amiss otherwise; one that is to mend that gets past.
func TestAnUpgradeAsksForHealthyPods(t *testing.T) {
	const way = `; mend that first, since there is no way back once it has begun, or set parameter acceptUnhealthy to ` +
		`"true" where the other version is what mends it`
	for name, tc := range map[string]struct {
		change func(w *world)
		text   string
	}{
		"all well": {func(*world) {}, ""},
		"no pods":  {func(w *world) { w.facts.Pods = nil }, "it has no pods; start it first"},
		"one that is unhealthy": {func(w *world) {
			w.at(1).Report = report.Report{Health: report.Unhealthy, Message: "LOADING"}
		}, "pod redis-a-main-1 reports that it is Unhealthy: LOADING" + way},
		"one that starts": {func(w *world) { w.at(1).Report.Health = report.Starting },
			"pod redis-a-main-1 reports that it is Starting" + way},
		"one without a report": {func(w *world) { w.at(1).Report = report.Report{} },
			"pod redis-a-main-1 has yet to report" + way},
		"one on a node that is off": {func(w *world) { w.at(1).Ready = metav1.ConditionFalse },
			"pod redis-a-main-1 is not ready" + way},
		"one that goes and one that is not there": {
			func(w *world) { w.at(2).Presence, w.at(1).Presence = PodGoing, PodAbsent },
			"pod redis-a-main-1 is not there; pod redis-a-main-2 is being deleted" + way},
		"one that comes": {func(w *world) { w.at(1).Presence = PodComing }, "pod redis-a-main-1 has yet to start" + way},
		"one that does not follow": {func(w *world) {
			w.records(func(r *platformv1.PrimaryRecord) { r.List.Members = r.List.Members[:2] })
		}, "pod redis-a-main-2 does not follow the primary" + way},
		"a version that mends it": {func(w *world) {
			w.at(1).Report.Health = report.Unhealthy
			w.facts.Parameters["acceptUnhealthy"] = "true"
		}, ""},
		"pods that nobody names a writer of": {func(w *world) { w.facts.Writing = nil }, ""},
		"a writer that has no list yet": {func(w *world) {
			w.records(func(r *platformv1.PrimaryRecord) { r.List = platformv1.MemberList{} })
		}, ""},
		"many": {func(w *world) {
			for i := range int32(4) {
				w.facts.Pods = append(w.facts.Pods, pod(3+i, reader))
			}
			for i := range w.facts.Pods {
				w.facts.Pods[i].Ready = metav1.ConditionFalse
			}
		}, "pod redis-a-main-3 is not ready; pod redis-a-main-4 is not ready; and so with 2 more" + way},
	} {
		t.Run(name, func(t *testing.T) {
			w := writingWorld("UpgradePaaS", map[string]string{"version": "8.0"})
			tc.change(w)
			reason := ""
			if tc.text != "" {
				reason = ReasonPreconditionFailed
			}
			expect(t, Preconditions(w.facts), reason, tc.text)
		})
	}
}

// Templates can ask for the numbers themselves.
func TestHealthOfATarget(t *testing.T) {
	w := writingWorld("UpgradePaaS", nil)
	w.at(0).Report.Health = report.Unhealthy
	w.records(func(r *platformv1.PrimaryRecord) { r.List.Members = r.List.Members[:1] })
	target := w.facts.target()
	if got := fmt.Sprint(target["pods"], target["healthy"], target["following"]); got != "3 2 1" {
		t.Errorf("pods, healthy, following: %s", got)
	}
}
