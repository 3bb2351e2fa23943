// SPDX-License-Identifier: Apache-2.0

// Package podstart says what keeps a pod from starting or from staying up, in the words of the scheduler, the kubelet
// and the containers. It is pure.
package podstart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// VolumePatience is how long a pod may wait for its volumes without a word of the scheduler or the kubelet. That a
// volume is not provisioned, attached or mounted is told by events alone, which the engine does not read: the
// status says no more than that it takes long.
const VolumePatience = 2 * time.Minute

// longestLine is how many characters of the last line of a log are shown.
const longestLine = 300

// Fault is what stops a pod.
type Fault struct {
	// Reason for a condition: one that platformv1.StopsPods knows.
	Reason string
	// Message names the pod, the container where it is one, the cause, and what to do about it.
	Message string
}

// Pod is a pod, and what is known of its surroundings.
type Pod struct {
	*corev1.Pod
	// Claims of its namespace by name; nil where they are not known.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Now is the time.
	Now time.Time
}

// Fault returns what stops the pod; nil for nothing. Then wake is how soon a wait of it counts as a fault, 0 for never.
func (p Pod) Fault() (found *Fault, wake time.Duration) {
	if ready := p.condition(corev1.PodReady); ready != nil && ready.Status == corev1.ConditionTrue {
		return nil, 0
	}
	if found = p.unscheduled(); found != nil {
		return found, 0
	}
	for _, status := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if found = p.container(&status); found != nil {
			return found, 0
		}
	}
	return p.volumes()
}

func fault(reason, format string, args ...any) *Fault {
	return &Fault{reason, fmt.Sprintf(format, args...)}
}

// Unschedulable returns the condition by which the scheduler says that there is no node for a pod; nil where it does
// not.
func Unschedulable(pod *corev1.Pod) *corev1.PodCondition {
	scheduled := Pod{Pod: pod}.condition(corev1.PodScheduled)
	if scheduled == nil || scheduled.Reason != corev1.PodReasonUnschedulable {
		return nil
	}
	return scheduled
}

func (p Pod) condition(kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// unscheduled is the fault of a pod that has no node.
func (p Pod) unscheduled() *Fault {
	scheduled := p.condition(corev1.PodScheduled)
	if !isFalse(scheduled) || p.Spec.NodeName != "" {
		return nil
	}
	says := cmp.Or(scheduled.Message, scheduled.Reason)
	todo := "make room on a node that fits, or change its resources or scheduling"
	switch pending := p.pendingClaims(); {
	case scheduled.Reason == corev1.PodReasonSchedulingGated:
		todo = "whoever set spec.schedulingGates on the pod has to remove them"
	// The former words are those of Kubernetes before 1.34.
	case strings.Contains(says, "had volume node affinity conflict"),
		strings.Contains(says, "match PersistentVolume's node affinity"):
		todo = "if the node that its volumes are on is gone for good, so is their data: have a RebuildMember make the pod " +
			"anew where others have that data, or delete what was on it for the pod to begin empty: kubectl delete pvc " +
			strings.Join(p.claims(), " ")
	case strings.Contains(strings.ToLower(says), "persistentvolumeclaim") && len(pending) > 0:
		todo = "see why they are Pending: kubectl describe pvc " + strings.Join(pending, " ")
	}
	says = strings.TrimSuffix(says, ".")
	return fault(platformv1.ReasonPodUnschedulable, "no node for pod %s: %s; %s", p.Name, says, todo)
}

func isFalse(c *corev1.PodCondition) bool { return c != nil && c.Status == corev1.ConditionFalse }

// claims of the pod itself, by name: what others share with it outlives it.
func (p Pod) claims() []string {
	var names []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && !render.Foreign(&v) {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// pendingClaims are those of the pod that are known to have no volume.
func (p Pod) pendingClaims() []string {
	return slices.DeleteFunc(p.claims(), func(name string) bool {
		return p.Claims[name] == nil || p.Claims[name].Status.Phase == corev1.ClaimBound
	})
}

// What a kubelet says of a container that it cannot start.
var (
	imageFailures = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
		"ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}
	startFailures = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
		"PreCreateHookError", "PreStartHookError", "PostStartHookError"}
)

// LacksImage says whether a container does not start since its node cannot get its image.
func LacksImage(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && slices.Contains(imageFailures, status.State.Waiting.Reason)
}

// container is the fault of one container.
func (p Pod) container(status *corev1.ContainerStatus) *Fault {
	waiting, ended := status.State.Waiting, status.State.Terminated
	switch {
	case LacksImage(status):
		return fault(platformv1.ReasonImageUnavailable, "pod %s: container %s cannot get image %q (%s): "+
			"make it available to the node, or mend the registry setting, the name or the pull secret",
			p.Name, status.Name, status.Image, pullError(waiting))
	case waiting != nil && slices.Contains(startFailures, waiting.Reason):
		return fault(platformv1.ReasonProcessFailing, "pod %s: container %s does not start (%s): mend what that names",
			p.Name, status.Name, reasonAnd(waiting.Reason, waiting.Message))
	case waiting != nil && waiting.Reason == "CrashLoopBackOff":
		ended = status.LastTerminationState.Terminated
		if ended == nil {
			ended = &corev1.ContainerStateTerminated{ExitCode: -1}
		}
	}
	if ended == nil || ended.ExitCode == 0 {
		return nil
	}
	return &Fault{platformv1.ReasonProcessFailing, p.crash(status.Name, ended)}
}

// pullError is why an image cannot be pulled. A kubelet says by turns that it tries and that it waits to try again: the
// text is the same for both, so that it is not written into the status again and again.
func pullError(waiting *corev1.ContainerStateWaiting) string {
	reason, message := waiting.Reason, waiting.Message
	if reason == "ErrImagePull" {
		reason = "ImagePullBackOff"
	}
	if strings.HasPrefix(message, "Back-off pulling image") {
		_, cause, found := strings.Cut(message, "ErrImagePull: ")
		if message = cause; !found {
			message = ""
		}
	}
	return reasonAnd(reason, message)
}

// reasonAnd is a reason, and what is said besides.
func reasonAnd(reason, message string) string {
	if message = strings.Join(strings.Fields(message), " "); message != "" {
		return reason + ": " + message
	}
	return reason
}

// crash says how a container ended that is started again and again, with the last line of its log where its termination
// message has it.
func (p Pod) crash(container string, ended *corev1.ContainerStateTerminated) string {
	how := "CrashLoopBackOff"
	if ended.ExitCode >= 0 {
		how = fmt.Sprintf("exit code %d", ended.ExitCode)
	}
	todo := fmt.Sprintf("see its log: kubectl logs %s -c %s --previous", p.Name, container)
	switch ended.Reason {
	case "", "Error":
	case "OOMKilled":
		how, todo = how+", OOMKilled", "give it more memory"
	default:
		how += ", " + ended.Reason
	}
	if line := lastLine(ended.Message); line != "" {
		how += "; its last line: " + line
	}
	return fmt.Sprintf("pod %s: container %s does not stay up (%s): %s", p.Name, container, how, todo)
}

// lastLine is the last line of a text that is not blank.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := []rune(strings.TrimSpace(lines[len(lines)-1]))
	if len(line) > longestLine {
		return string(line[:longestLine]) + "…"
	}
	return string(line)
}

// volumes is the fault of a pod that waits for volumes.
func (p Pod) volumes() (*Fault, time.Duration) {
	for _, name := range p.claims() {
		if claim := p.Claims[name]; claim != nil && claim.Status.Phase == corev1.ClaimLost {
			return fault(platformv1.ReasonVolumeUnavailable, "pod %s: claim %s has lost its volume: "+
				"bring PersistentVolume %q back, or delete the claim where other members have the data",
				p.Name, name, claim.Spec.VolumeName), 0
		}
	}
	since, message := p.CreationTimestamp.Time, ""
	switch pending, sandbox := p.pendingClaims(), p.condition(corev1.PodReadyToStartContainers); {
	case p.Spec.NodeName == "" && len(pending) > 0:
		message = fmt.Sprintf("pod %s: no volume is provisioned for claim %s: see why, kubectl describe pvc %s",
			p.Name, strings.Join(pending, ", "), strings.Join(pending, " "))
	case p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending && isFalse(sandbox):
		since = sandbox.LastTransitionTime.Time
		message = fmt.Sprintf("pod %s: node %s has not set up its volumes and its network: see its events for "+
			"FailedMount, FailedAttachVolume and FailedCreatePodSandBox: kubectl describe pod %s",
			p.Name, p.Spec.NodeName, p.Name)
	default:
		return nil, 0
	}
	if left := since.Add(VolumePatience).Sub(p.Now); left > 0 {
		return nil, left
	}
	return &Fault{platformv1.ReasonVolumeUnavailable, message}, 0
}
