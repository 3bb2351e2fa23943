// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// speaking is an object that says in its conditions how it is.
type speaking interface {
	client.Object
	platformv1.Conditioned
}

// firstPod waits for the first pod of a set and returns it.
func firstPod(t *testing.T, namespace, set string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: platformv1.PodNameFor(set, 0)}}
	testkit.WaitFor(t, env.Client, pod, "is there", func() error { return nil })
	return pod
}

type waiting = corev1.ContainerStateWaiting

// fails has the kubelet say that a container of a pod does not start, or does not stay up.
func fails(t *testing.T, pod *corev1.Pod, container string, waits waiting, last *corev1.ContainerStateTerminated) {
	t.Helper()
	failing := pod.DeepCopy()
	failing.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, Image: "nowhere/" + container + ":1",
		State: corev1.ContainerState{Waiting: &waits}, LastTerminationState: corev1.ContainerState{Terminated: last}}}
	if err := env.Client.Status().Patch(t.Context(), failing, client.MergeFrom(pod)); err != nil {
		t.Fatal(err)
	}
}

// saysFirst waits until the Ready of an object has a reason, and a message that begins so.
func saysFirst(t *testing.T, obj speaking, reason, first string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, obj, "says first "+first, func() error {
		ready := conditions.Get(obj, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != reason || !strings.HasPrefix(ready.Message, first) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
}

// An image that cannot be pulled is what an object of a typed kind says first, and so do all that it is made into.
func TestATypedObjectSaysWhyItsPodsDoNotStart(t *testing.T) {
	namespace := env.Namespace(t)
	runTyped(t, typed.Register(example.Kind{}))
	sample := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	sample.Spec.Version, sample.Spec.Replicas = "7.0", 1
	create(t, sample)
	fails(t, firstPod(t, namespace, "sample-a-redis-main"), "redis",
		waiting{Reason: "ErrImagePull", Message: "manifest unknown"}, nil)
	const first = "pod sample-a-redis-main-0: container redis cannot get image " +
		`"nowhere/redis:1" (ImagePullBackOff: manifest unknown)`
	for _, obj := range []speaking{
		sample, &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample-a"}},
		&platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample-a-redis"}},
		&platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample-a-redis-main"}},
	} {
		saysFirst(t, obj, platformv1.ReasonImageUnavailable, first)
	}
}

// What stops a pod of one component is said before what the others wait for, with the last line of its log.
func TestAComponentThatCrashesIsSaidBeforeThoseThatNeedIt(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	app := shop(namespace, "shop-a", "tiers")
	create(t, app)
	waits := waiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}
	last := &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error",
		Message: "opening\nFATAL: no space left on device\n"}
	fails(t, firstPod(t, namespace, "shop-a-db-0"), "main", waits, last)
	saysFirst(t, app, platformv1.ReasonProcessFailing,
		"component db: pod shop-a-db-0-0: container main does not stay up (exit code 2; "+
			"its last line: FATAL: no space left on device): see its log: kubectl logs shop-a-db-0-0 -c main --previous")
}
