// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/disruption"
)

// member is a pod that is ready and healthy, with a change.
func member(name string, change func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "1", Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis:2"}}},
		Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "redis", ContainerID: "sim://1", Image: "registry/redis:2"}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	tell(&pod, nil)
	change(&pod)
	return pod
}

func tell(pod *corev1.Pod, call *agentreport.Call) {
	pod.Annotations[platformv1.ReportAnnotation] = agentreport.Report{Health: agentreport.Healthy, LastCall: call}.String()
}

func TestMembersThatAreAwaited(t *testing.T) {
	resize := func(kind corev1.PodConditionType, reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions,
				corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason})
		}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"all is well":    {func(*corev1.Pod) {}, ""},
		"not ready":      {func(pod *corev1.Pod) { pod.Status.Conditions = nil }, "to be ready"},
		"not healthy":    {func(pod *corev1.Pod) { delete(pod.Annotations, platformv1.ReportAnnotation) }, "to be ready"},
		"on its way out": {func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }, "to be ready"},
		"not there":      {func(pod *corev1.Pod) { pod.Name = "another" }, "to be made"},
		"another image": {func(pod *corev1.Pod) {
			pod.Annotations[platformv1.ImagesAnnotation] = `{"redis":{"id":"sim://1","image":"redis:1"}}`
		}, "to be ready"},
		"image is there": {func(pod *corev1.Pod) {
			pod.Annotations[platformv1.ImagesAnnotation] = `{"redis":{"id":"sim://0","image":"redis:1"}}`
		}, ""},
		"spec not seen":   {func(pod *corev1.Pod) { pod.Generation, pod.Status.ObservedGeneration = 3, 2 }, "to be through"},
		"resizes":         {resize(corev1.PodResizeInProgress, ""), "to be through"},
		"has no room now": {resize(corev1.PodResizePending, corev1.PodReasonDeferred), ""},
		"restarts": {func(pod *corev1.Pod) { tell(pod, &agentreport.Call{Key: "k", Phase: agentreport.CallRunning}) },
			"to be through"},
		"restarted": {func(pod *corev1.Pod) {
			tell(pod, &agentreport.Call{Key: "k", Phase: agentreport.CallSucceeded})
		}, ""},
		"did not restart": {func(pod *corev1.Pod) { tell(pod, &agentreport.Call{Key: "k", Phase: agentreport.CallFailed}) },
			""},
	} {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"},
			Spec: platformv1.WorkloadSetSpec{Replicas: 1}}
		got := (&Reconciler{Deps: Deps{Locks: &disruption.Locks{}}}).awaitedOf(set, []corev1.Pod{member("s-0", test.change)})
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
