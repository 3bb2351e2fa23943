// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// verdictOn is a verdict on pods, with what the rollout is planned from.
func verdictOn(pods map[string]*corev1.Pod, planned rollout.Facts) *Verdict {
	return &Verdict{Draft: &facts.Draft{Facts: &facts.Facts{Pods: pods}, Rollout: planned}, stuck: map[string]string{}}
}

// A call that fails is made four times, at growing intervals and not before, whatever wakes the set meanwhile; then it
// is for the user to mend the plan. Another plan begins anew.
func TestCallsThatFailAreMadeAgain(t *testing.T) {
	r := &Reconciler{}
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 7}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "u"}}
	start := time.Unix(1_800_000_000, 0)
	f := verdictOn(map[string]*corev1.Pod{"web-0": pod}, rollout.Facts{Pods: []rollout.Pod{{Name: "web-0"}}})
	f.Facts.Now = start
	f.Plan.Digest = "sha256:a"
	step := rollout.Step{Pod: "web-0"}
	failed := func(key string) {
		f.Rollout.Pods[0].Report.LastCall = &agentreport.Call{Key: key, Phase: agentreport.CallFailed,
			Message: "it is starting"}
	}
	const first = "reload/sha256:a/7/u"
	for n, delay := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
		key, attempt, judged := r.nextCall(reloadCall, set, f, step)
		if judged != nil || attempt != n+1 || !strings.HasPrefix(key, first) {
			t.Fatalf("attempt %d: got key %q, number %d, %v", n+1, key, attempt, judged)
		}
		failed(key)
		for _, passed := range []time.Duration{0, delay / 2, delay - time.Millisecond} {
			f.Now = start.Add(passed)
			_, _, judged := r.nextCall(reloadCall, set, f, step)
			if judged == nil || judged.Kind() != outcome.KindWaiting || judged.After() != delay-passed ||
				!strings.Contains(judged.Message(), "pod web-0 rejects the configuration: it is starting") {
				t.Fatalf("attempt %d, %s after it failed: got %+v", n+1, passed, judged)
			}
		}
		start = start.Add(delay)
		f.Now = start
	}
	key, attempt, judged := r.nextCall(reloadCall, set, f, step)
	if judged != nil || attempt != callAttempts {
		t.Fatalf("the last attempt: got %d, %v", attempt, judged)
	}
	failed(key)
	f.Now = start.Add(time.Hour)
	if _, _, judged = r.nextCall(reloadCall, set, f, step); judged == nil || judged.Kind() != outcome.KindStalled ||
		judged.Reason() != platformv1.ReasonConfigurationPending {
		t.Fatalf("after the last attempt: got %+v", judged)
	}
	if r.retries.Len() != 0 {
		t.Errorf("%d waits are kept of a set that waits for nothing", r.retries.Len())
	}
	f.Plan.Digest = "sha256:b"
	if key, attempt, judged = r.nextCall(reloadCall, set, f, step); judged != nil || attempt != 1 ||
		key != "reload/sha256:b/7/u" {
		t.Errorf("another plan: got key %q, number %d, %v", key, attempt, judged)
	}
}

// Pods whose processes start together fail together, and each is tried again in its time.
func TestCallsThatFailTogetherAreMadeAgain(t *testing.T) {
	r, start := &Reconciler{}, time.Unix(1000, 0)
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web"}}
	f := verdictOn(map[string]*corev1.Pod{}, rollout.Facts{})
	f.Plan.Digest = "sha256:a"
	for i, name := range []string{"web-0", "web-1"} {
		f.Pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}}
		f.Rollout.Pods = append(f.Rollout.Pods, rollout.Pod{Name: name, Ordinal: int32(i)})
		key := callKey(restartCall, set, f, f.Pods[name])
		f.Rollout.Pods[i].Report.LastCall = &agentreport.Call{Key: key, Phase: agentreport.CallFailed,
			Message: "it is starting"}
	}
	attempts := func(after time.Duration) (all []int) {
		f.Now = start.Add(after)
		for i, p := range f.Rollout.Pods {
			_, attempt, _ := r.nextCall(restartCall, set, f, rollout.Step{Pod: p.Name, Ordinal: int32(i)})
			all = append(all, attempt)
		}
		return all
	}
	if got := attempts(0); !slices.Equal(got, []int{0, 0}) {
		t.Errorf("at once: attempts %v", got)
	}
	if got := attempts(firstRetry); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("in its time: attempts %v", got)
	}
	r.retries.ForgetPods(types.NamespacedName{Namespace: "n", Name: "web"})
	if r.retries.Len() != 0 {
		t.Errorf("%d waits are kept of a set that is gone", r.retries.Len())
	}
}

func TestCallsUnderWayAreLeftAlone(t *testing.T) {
	r := &Reconciler{}
	set := &platformv1.WorkloadSet{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "u"}}
	f := verdictOn(map[string]*corev1.Pod{"web-0": pod}, rollout.Facts{Pods: []rollout.Pod{{Name: "web-0"}}})
	for _, key := range []string{"plan//0/u", "plan//0/u/3"} {
		f.Rollout.Pods[0].Report.LastCall = &agentreport.Call{Key: key, Phase: agentreport.CallRunning}
		if _, _, judged := r.nextCall(restartCall, set, f, rollout.Step{Pod: "web-0"}); judged == nil ||
			judged.Kind() != outcome.KindDone {
			t.Errorf("%s: got %+v", key, judged)
		}
	}
}
