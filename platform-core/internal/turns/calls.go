// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// RestartCall begins the idempotency keys of the calls by which a rollout restarts a process with another plan.
const RestartCall = "plan"

// unreported is a call to a pod that may take its process out before the pod's report says so: an agent answers as soon
// as it has noted the call.
type unreported struct {
	pod types.UID
	// before is the key of the last call that the pod had reported.
	before string
	// weaker begins the keys of the reloads that the restart is in place of.
	weaker string
}

// from says whether a report with this last call may be from before the call.
func (u unreported) from(last string) bool {
	return last == u.before || strings.HasPrefix(last, u.weaker)
}

// Note remembers a restart that a rollout is about to ask a pod for. A key that the pod has reported already does
// nothing again. Weaker begins the keys of reloads that were refused, which the pod may report after it was looked at.
// It is kept in memory alone: whoever leads next goes by what the reports say.
func (t *Turns) Note(pod *corev1.Pod, key, weaker string) {
	before := reported(pod).Key
	if before == key {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unreported == nil {
		t.unreported = map[types.NamespacedName]unreported{}
	}
	t.unreported[nameOf(pod)] = unreported{pod.UID, before, weaker}
}

// ForgetSet drops what was noted of the pods of a set.
func (t *Turns) ForgetSet(set types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.unreported, func(pod types.NamespacedName, _ unreported) bool {
		return pod.Namespace == set.Namespace && strings.HasPrefix(pod.Name, set.Name+"-")
	})
}

// Forget drops a call that was not made.
func (t *Turns) Forget(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.unreported, nameOf(pod))
}

// Unreported says whether a call was noted that the report of a pod may be from before.
func (t *Turns) Unreported(pod *corev1.Pod) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	call, noted := t.unreported[nameOf(pod)]
	if noted && call.pod == pod.UID && call.from(reported(pod).Key) {
		return true
	}
	delete(t.unreported, nameOf(pod))
	return false
}

// Restarting says whether a rollout has asked a pod to restart its process, and the pod has yet to say that it has.
func (t *Turns) Restarting(pod *corev1.Pod) bool {
	last := reported(pod)
	return last.Phase == report.CallRunning && strings.HasPrefix(last.Key, RestartCall+"/") || t.Unreported(pod)
}

// reported is the last call that a pod has reported; the zero one for none.
func reported(pod *corev1.Pod) report.Call {
	if last := report.Latest(pod.Annotations[platformv1.ReportAnnotation]).LastCall; last != nil {
		return *last
	}
	return report.Call{}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
