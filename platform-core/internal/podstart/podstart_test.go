// SPDX-License-Identifier: Apache-2.0

package podstart

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// now is when the tests look at a pod that was made an hour before.
var now = time.Unix(1e9, 0)

// pod is one with two volumes, with changes. It has yet to say anything.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	claimed := func(name, claim string) corev1.Volume {
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}}
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a-0", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			claimed("data", "data-a-0"), claimed(render.ArchiveVolume, "shelf"),
		}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// says has a pod have a condition.
func says(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		})
	}
}

// unscheduled has the scheduler say this of a pod.
func unscheduled(message string) func(*corev1.Pod) {
	return says(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, message)
}

// on is a pod on a node.
func on(p *corev1.Pod) { p.Spec.NodeName = "n1" }

// container is one that waits, or has ended.
func container(state corev1.ContainerState, last *corev1.ContainerStateTerminated) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		on(p)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: "db", Image: "nowhere/db:1", State: state, LastTerminationState: corev1.ContainerState{Terminated: last}})
	}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32, reason, message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
}

// recent has all that a pod says be of a moment ago.
func recent(p *corev1.Pod) {
	p.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].LastTransitionTime = p.CreationTimestamp
	}
}

func inPhase(phase corev1.PersistentVolumeClaimPhase) map[string]*corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-a-0"}}
	claim.Spec.VolumeName, claim.Status.Phase = "pv-1", phase
	return map[string]*corev1.PersistentVolumeClaim{claim.Name: claim}
}

// faultCase is a pod, and what is said of it.
type faultCase struct {
	pod    *corev1.Pod
	claims map[string]*corev1.PersistentVolumeClaim
	reason string
	want   string
	wakes  bool
}

// check says whether a pod is told of with the pod, the container, the cause and what to do.
func (c faultCase) check(t *testing.T) {
	t.Helper()
	fault, wake := Pod{Pod: c.pod, Claims: c.claims, Now: now}.Fault()
	if (wake > 0) != c.wakes {
		t.Errorf("it is looked at again after %s", wake)
	}
	switch {
	case c.reason == "" && fault == nil:
	case c.reason == "" || fault == nil:
		t.Errorf("it says %+v, want %s: %s", fault, c.reason, c.want)
	case fault.Reason != c.reason, !strings.Contains(fault.Message, c.want), !strings.Contains(fault.Message, "a-0"):
		t.Errorf("it says %s: %s\nwant %s: %s", fault.Reason, fault.Message, c.reason, c.want)
	case !platformv1.StopsPods(fault.Reason):
		t.Errorf("%s is said behind others", fault.Reason)
	}
}

// A pod without a node or without its volumes says so, and one that only begins says nothing.
func TestFaultOfPlaceAndVolumes(t *testing.T) {
	const (
		nowhere, volumes = platformv1.ReasonPodUnschedulable, platformv1.ReasonVolumeUnavailable
		conflict         = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
		unbound          = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
	)
	sandbox := says(corev1.PodReadyToStartContainers, corev1.ConditionFalse, "", "")
	ready := says(corev1.PodReady, corev1.ConditionTrue, "", "")
	gated := says(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "gates are set")
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]faultCase{
		"nothing is known":   {pod: pod()},
		"ready":              {pod: pod(container(waits("ImagePullBackOff", ""), nil), ready)},
		"starts":             {pod: pod(container(waits("ContainerCreating", ""), nil))},
		"runs after a crash": {pod: pod(container(running, ended(1, "Error", "x")))},
		"on a node by now":   {pod: pod(unscheduled("0/3 nodes"), on)},
		"unschedulable": {pod: pod(unscheduled("0/3 nodes are available: 3 Insufficient memory.")), reason: nowhere,
			want: "no node for pod a-0: 0/3 nodes are available: 3 Insufficient memory; " +
				"make room on a node that fits, or change its resources or scheduling"},
		"unschedulable, for its volumes": {pod: pod(unscheduled(conflict)), reason: nowhere,
			want: "or delete what was on it for the pod to begin empty: kubectl delete pvc data-a-0"},
		"unschedulable, a claim is not bound": {pod: pod(unscheduled(unbound)), claims: inPhase(corev1.ClaimPending),
			reason: nowhere, want: "unbound immediate PersistentVolumeClaims; see why they are Pending: kubectl describe pvc " +
				"data"},
		"gated": {pod: pod(gated), reason: nowhere,
			want: "gates are set; whoever set spec.schedulingGates on the pod has to remove them"},
		"lost volume": {pod: pod(on), claims: inPhase(corev1.ClaimLost), reason: volumes,
			want: `pod a-0: claim data-a-0 has lost its volume: bring PersistentVolume "pv-1" back`},
		"claim that waits long": {pod: pod(), claims: inPhase(corev1.ClaimPending), reason: volumes,
			want: "pod a-0: no volume is provisioned for claim data-a-0: see why, kubectl describe pvc data-a-0"},
		"claim that waits": {pod: pod(recent), claims: inPhase(corev1.ClaimPending), wakes: true},
		"volumes that are not there": {pod: pod(on, sandbox), claims: inPhase(corev1.ClaimBound), reason: volumes,
			want: "node n1 has not set up its volumes and its network: see its events for FailedMount, "},
		"volumes that come": {pod: pod(on, sandbox, recent), wakes: true},
	} {
		t.Run(name, test.check)
	}
}

// A container that does not start, or does not stay up, says why.
func TestFaultOfContainers(t *testing.T) {
	const (
		image, process = platformv1.ReasonImageUnavailable, platformv1.ReasonProcessFailing
		backOff        = `Back-off pulling image "nowhere/db:1"`
	)
	agent := func(p *corev1.Pod) {
		status := corev1.ContainerStatus{Name: "agent", Image: "agent:1", State: waits("ErrImageNeverPull", "")}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
	}
	for name, test := range map[string]faultCase{
		"no image": {pod: pod(container(waits("ErrImagePull", "failed to resolve:\n not found"), nil)), reason: image,
			want: `pod a-0: container db cannot get image "nowhere/db:1" (ImagePullBackOff: failed to resolve: not found): ` +
				"make it available to the node, or mend the registry setting, the name or the pull secret"},
		"no image, later": {pod: pod(container(waits("ImagePullBackOff", backOff+": ErrImagePull: not found"), nil)),
			reason: image, want: "(ImagePullBackOff: not found)"},
		"no image, before Kubernetes 1.31": {pod: pod(container(waits("ImagePullBackOff", backOff), nil)),
			reason: image, want: "(ImagePullBackOff): make it"},
		"a name that is none": {pod: pod(container(waits("InvalidImageName", "no"), nil)),
			reason: image, want: "(InvalidImageName: no)"},
		"an init container": {pod: pod(agent, container(waits("PodInitializing", ""), nil)),
			reason: image, want: `container agent cannot get image "agent:1"`},
		"a Secret is missing": {reason: process,
			pod:  pod(container(waits("CreateContainerConfigError", `secret "keys" not found`), nil)),
			want: `container db does not start (CreateContainerConfigError: secret "keys" not found): mend what that names`},
		"crash loop": {reason: process,
			pod: pod(container(waits("CrashLoopBackOff", "back-off 40s"), ended(3, "Error", "a\nFATAL: no such folder\n\n"))),
			want: "pod a-0: container db does not stay up (exit code 3; its last line: FATAL: no such folder): " +
				"see its log: kubectl logs a-0 -c db --previous"},
		"out of memory": {pod: pod(container(waits("CrashLoopBackOff", ""), ended(137, "OOMKilled", ""))),
			reason: process, want: "(exit code 137, OOMKilled): give it more memory"},
		"crash loop, no more is known": {pod: pod(container(waits("CrashLoopBackOff", ""), nil)),
			reason: process, want: "does not stay up (CrashLoopBackOff): see its log"},
		"has just crashed": {pod: pod(container(corev1.ContainerState{Terminated: ended(1, "Error", "")}, nil)),
			reason: process, want: "(exit code 1)"},
		"has ended well": {pod: pod(container(corev1.ContainerState{Terminated: ended(0, "Completed", "")}, nil))},
	} {
		t.Run(name, test.check)
	}
}

// A log may have a line of any length.
func TestLastLineIsBounded(t *testing.T) {
	if line := []rune(lastLine("a\n" + strings.Repeat("ü", 1000))); len(line) != longestLine+1 {
		t.Errorf("it has %d characters", len(line))
	}
}
