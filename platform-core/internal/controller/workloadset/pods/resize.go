// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/internal/inplaceupdate"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

const (
	// ResizePatience is how long a pod waits for room on its node before it is made anew.
	ResizePatience = 5 * time.Minute
	// EndedRecheck is how long after its time a pod that should have ended is looked at.
	EndedRecheck = 2 * time.Second
	// nodesRecheck is how soon the nodes are looked at again for one that has room. It costs reads only.
	nodesRecheck = time.Minute
)

// CanResize asks the server whether it gives pods other resources while they run.
func CanResize(mgr ctrl.Manager) (bool, error) {
	asker, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return false, err
	}
	resources, err := asker.ServerResourcesForGroupVersion("v1")
	if err != nil {
		return false, fmt.Errorf("cannot ask the server what it can do with pods: %w", err)
	}
	for _, resource := range resources.APIResources {
		if resource.Name == "pods/resize" {
			return true, nil
		}
	}
	return false, nil
}

// fitResources says how the resources of a pod stand, and notes what it waits for.
func (r *Reconciler) fitResources(ctx context.Context, f *Verdict, live, want *corev1.Pod) (rollout.Fit, string,
	error) {
	if changes := resourceChanges(live, want); len(changes) > 0 {
		switch name := fixed(changes); {
		case name != "":
			return rollout.Replace, name + " cannot change while the pod runs", nil
		case !r.Resizable:
			return rollout.Replace, "this version of Kubernetes does not resize pods", nil
		case live.Spec.NodeName == "" && live.Status.Phase == corev1.PodPending:
			return rollout.Replace, "the pod is on no node yet", nil
		}
		return rollout.Outdated, "", nil
	}
	reason, since, message := resizeState(live)
	minutes := int(ResizePatience.Minutes())
	switch reason {
	case corev1.PodReasonDeferred, corev1.PodReasonError:
		what := "has no room for the new resources now"
		if reason == corev1.PodReasonError {
			what = "fails to give it the new resources"
		}
		if since.IsZero() {
			return rollout.Underway, "its node " + what + message, nil
		}
		waited := f.Now.Sub(since)
		if waited >= ResizePatience {
			return rollout.Replace, fmt.Sprintf("for %d minutes its node %s%s", minutes, what, message), nil
		}
		f.WakeAfter(ResizePatience - waited)
		return rollout.Underway, fmt.Sprintf("its node %s%s; it is made anew when that lasts for %d minutes", what, message,
			minutes), nil
	case corev1.PodReasonInfeasible:
		node, err := r.roomyNode(ctx, f, live)
		if err != nil {
			return "", "", err
		}
		if node == "" {
			f.WakeAfter(nodesRecheck)
			f.stuck[live.Name] = noRoomAnywhere(message)
			return rollout.Underway, f.stuck[live.Name], nil
		}
		return rollout.Replace, roomElsewhere(message, node), nil
	case "":
		return rollout.Current, "", nil
	}
	return rollout.Underway, "its node has yet to give it the new resources" + message, nil
}

// noRoomAnywhere and roomElsewhere say what becomes of a pod whose node can never give it the new resources.
func noRoomAnywhere(said string) string {
	return "no node that the pod may run on can ever give it the new resources" + said +
		": add a node that has room, or lower the resources"
}

func roomElsewhere(said, node string) string {
	return fmt.Sprintf("its node can never give them%s, and node %s could", said, node)
}

// inProgress is the state of a resize that the node works on or has not seen yet.
const inProgress = "InProgress"

// resizeState reads what the kubelet says of a resize: Deferred, Infeasible, Error, inProgress, or nothing.
func resizeState(pod *corev1.Pod) (reason string, since time.Time, message string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		if observed := cmp.Or(condition.ObservedGeneration, pod.Status.ObservedGeneration); aboutResizes(condition.Type) &&
			observed > 0 && observed < pod.Generation {
			// It speaks of resources that were asked for before: what could not be had then may be had now.
			return inProgress, time.Time{}, ""
		}
		said := ""
		if condition.Message != "" {
			said = " (" + condition.Message + ")"
		}
		switch condition.Type {
		case corev1.PodResizePending:
			// It speaks of the newest resources, whatever is in progress beside it.
			return condition.Reason, condition.LastTransitionTime.Time, said
		case corev1.PodResizeInProgress:
			reason, since, message = inProgress, condition.LastTransitionTime.Time, said
			if condition.Reason == corev1.PodReasonError {
				reason = corev1.PodReasonError
			}
		}
	}
	if reason == "" {
		reason = olderResizeState(pod)
	}
	if reason == "" && !seen(pod) {
		return inProgress, time.Time{}, ""
	}
	return reason, since, message
}

// aboutResizes says whether a kubelet says with a condition how far a resize is.
func aboutResizes(condition corev1.PodConditionType) bool {
	return condition == corev1.PodResizePending || condition == corev1.PodResizeInProgress
}

// olderResizeState reads what kubelets before 1.33 say instead of conditions; they tell no time.
func olderResizeState(pod *corev1.Pod) string {
	switch state := pod.Status.Resize; state {
	case corev1.PodResizeStatusDeferred, corev1.PodResizeStatusInfeasible:
		return string(state)
	case "":
		return ""
	}
	return inProgress
}

// seen says whether the kubelet knows the present resources, as far as it tells.
func seen(pod *corev1.Pod) bool {
	if pod.Status.ObservedGeneration > 0 && pod.Status.ObservedGeneration < pod.Generation {
		return false
	}
	containers := inplaceupdate.Running(&pod.Spec)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		container := named(containers, status.Name)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			allocated, told := status.AllocatedResources[name]
			if container != nil && told && allocated.Cmp(container.Resources.Requests[name]) != 0 {
				return false
			}
		}
	}
	return true
}

// roomyNode returns a node that a pod could be on with its new resources if nothing else were there; empty when
// there is none, or when the operator may not see nodes. It is asked only for a pod that its own node can never
// satisfy.
func (r *Reconciler) roomyNode(ctx context.Context, f *Verdict, pod *corev1.Pod) (string, error) {
	if f.nodes == nil {
		list := &corev1.NodeList{}
		if err := r.Live.List(ctx, list); err != nil && !apierrors.IsForbidden(err) {
			return "", fmt.Errorf("cannot look for a node that has room: %w", err)
		}
		f.nodes = &list.Items
	}
	pins, err := r.volumePins(ctx, f, pod)
	if err != nil {
		return "", err
	}
	for i := range *f.nodes {
		if node := &(*f.nodes)[i]; takes(node, pod, pins) {
			return node.Name, nil
		}
	}
	return "", nil
}

// volumePins returns where the volumes of a pod can be reached from.
func (r *Reconciler) volumePins(ctx context.Context, f *Verdict, pod *corev1.Pod) ([]*corev1.NodeSelector, error) {
	var pins []*corev1.NodeSelector
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := r.claimOf(ctx, f, pod, &v)
		if err != nil {
			return nil, err
		}
		if claim == nil || claim.Spec.VolumeName == "" {
			continue
		}
		volume := &corev1.PersistentVolume{}
		err = r.Live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			// Not known to be reachable from anywhere else: an empty selector matches no node.
			pins = append(pins, &corev1.NodeSelector{})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look where volume %q can be reached from: %w", claim.Spec.VolumeName, err)
		}
		if volume.Spec.NodeAffinity != nil && volume.Spec.NodeAffinity.Required != nil {
			pins = append(pins, volume.Spec.NodeAffinity.Required)
		}
	}
	return pins, nil
}

// claimOf is the claim of a volume of a pod, nil for none: the pod's own, or that of the BackupRepository which it
// keeps its archive in, which no cache has.
func (r *Reconciler) claimOf(ctx context.Context, f *Verdict, pod *corev1.Pod,
	v *corev1.Volume) (*corev1.PersistentVolumeClaim, error) {
	name := v.PersistentVolumeClaim.ClaimName
	if v.Name != render.ArchiveVolume {
		return f.Claims[name], nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read PersistentVolumeClaim %q of an archive: %w", name, err)
	}
	return claim, nil
}
