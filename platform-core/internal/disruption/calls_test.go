// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// pod reports this last call; none with an empty key.
func pod(uid types.UID, key, phase string) *corev1.Pod {
	said := report.Report{Health: report.Healthy}
	if key != "" {
		said.LastCall = &report.Call{Key: key, Phase: phase}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s-0", UID: uid,
		Annotations: map[string]string{platformv1.ReportAnnotation: said.String()}}}
}

func TestCallsThatAreNotReportedYet(t *testing.T) {
	var locks Locks
	before := pod("1", "one", report.CallSucceeded)
	if locks.Note(before, "one", "reload/1"); locks.Unreported(before) {
		t.Error("a call that was reported counts")
	}
	if locks.Note(before, "two", "reload/1"); locks.Unreported(pod("2", "one", report.CallSucceeded)) {
		t.Error("it counts for a pod that was made since")
	}
	if locks.Note(before, "two", "reload/1"); !locks.Unreported(before) || !locks.Restarting(before) {
		t.Error("a call that was not reported does not count")
	}
	if !locks.Unreported(pod("1", "reload/1/2", report.CallFailed)) {
		t.Error("it was heard of with the reload that it is in place of")
	}
	if locks.Unreported(pod("1", "three", report.CallSucceeded)) || len(locks.unreported) != 0 {
		t.Error("it counts, or is kept, after a later call was reported")
	}
	locks.Note(before, "two", "reload/1")
	if locks.Forget(before); locks.Unreported(before) {
		t.Error("a call that was not made counts")
	}
	locks.Note(before, "two", "reload/1")
	if locks.ForgetSet(types.NamespacedName{Namespace: "n", Name: "s"}); locks.Unreported(before) {
		t.Error("a call counts whose set is gone")
	}
	if first := pod("1", "", ""); locks.Unreported(first) {
		t.Error("a call counts that nobody noted")
	} else if locks.Note(first, "one", "reload/1"); !locks.Unreported(first) {
		t.Error("the first call of a pod does not count")
	}
}

func TestRestarting(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"no call":            {pod("1", "", ""), false},
		"by a rollout":       {pod("1", "plan/d2/1/1", report.CallRunning), true},
		"it has":             {pod("1", "plan/d2/1/1", report.CallSucceeded), false},
		"by an Operation":    {pod("1", "restart/1", report.CallRunning), false},
		"a reload":           {pod("1", "reload/d2/1/1", report.CallRunning), false},
		"it would not do so": {pod("1", "plan/d2/1/1", report.CallFailed), false},
	} {
		if got := (&Locks{}).Restarting(test.pod); got != test.want {
			t.Errorf("%s: it is %t", name, got)
		}
	}
}
