// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// RestartCall is the prefix of the idempotency keys of the calls by which a rollout restarts a process with a new plan.
const RestartCall = "plan"

// unreported is a call that may stop the process of a pod before the pod reports it: an agent answers as soon as it has
// stored the call.
type unreported struct {
	pod types.UID
	// before is the key of the last call that the pod had reported.
	before string
	// weaker is the prefix of the keys of the reloads that the restart replaces.
	weaker string
}

// from says whether a report with this last call may precede the call.
func (u unreported) from(last string) bool {
	return last == u.before || strings.HasPrefix(last, u.weaker)
}

// Note records a restart before a rollout calls the pod. It ignores a key that the pod has already reported, since the
// agent does not repeat that call. weaker is the prefix of the keys of rejected reloads, which the pod may report after
// it was observed. The record is in memory only: the next leader relies on the reports.
func (l *Locks) Note(pod *corev1.Pod, key, weaker string) {
	before := reported(pod).Key
	if before == key {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unreported == nil {
		l.unreported = map[types.NamespacedName]unreported{}
	}
	l.unreported[nameOf(pod)] = unreported{pod.UID, before, weaker}
}

// ForgetSet deletes the records of the pods of a set.
func (l *Locks) ForgetSet(set types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.unreported, func(pod types.NamespacedName, _ unreported) bool {
		return pod.Namespace == set.Namespace && platformv1.WorkloadSetNameOf(pod.Name) == set.Name
	})
}

// Forget deletes the record of a call that was not made.
func (l *Locks) Forget(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unreported, nameOf(pod))
}

// Unreported says whether there is a recorded call that the report of a pod may precede.
func (l *Locks) Unreported(pod *corev1.Pod) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	call, noted := l.unreported[nameOf(pod)]
	if noted && call.pod == pod.UID && call.from(reported(pod).Key) {
		return true
	}
	delete(l.unreported, nameOf(pod))
	return false
}

// Restarting says whether a rollout has called a pod to restart its process, and the pod has yet to report the end.
func (l *Locks) Restarting(pod *corev1.Pod) bool {
	last := reported(pod)
	return last.Phase == report.CallRunning && strings.HasPrefix(last.Key, RestartCall+"/") || l.Unreported(pod)
}

// reported returns the last call that a pod has reported; the zero value for none.
func reported(pod *corev1.Pod) report.Call {
	if last := report.Latest(pod.Annotations[platformv1.ReportAnnotation]).LastCall; last != nil {
		return *last
	}
	return report.Call{}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
