// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// quotaRecheck is how soon resources that a quota forbids are asked for again.
const quotaRecheck = time.Minute

// Calls to a process manager, as they begin the idempotency key.
const (
	restartCall = disruption.RestartCall
	reloadCall  = "reload"
)

// Act takes the steps: first those that make pods or give roles, of which none waits for another (the planner puts
// what does into another reconcile), then those that change pods, in their order.
func (r *Reconciler) Act(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	steps []rollout.Step) outcome.Outcome {
	outcomes := make([]outcome.Outcome, len(steps))
	var free []func() error
	var ordered []int
	for i, step := range steps {
		if step.Action == rollout.CreatePod || step.Action == rollout.SetRole {
			free = append(free, func() error { outcomes[i] = r.take(ctx, set, f, step); return nil })
			continue
		}
		ordered = append(ordered, i)
	}
	if err := frame.Together(free...); err != nil {
		return outcome.Failed(err)
	}
	for _, i := range ordered {
		outcomes[i] = r.take(ctx, set, f, steps[i])
	}
	return outcome.Worst(outcomes...)
}

func (r *Reconciler) take(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	step rollout.Step) outcome.Outcome {
	switch step.Action {
	case rollout.CreatePod:
		return r.createPod(ctx, set, f, step)
	case rollout.DeletePod:
		r.Events.Normal(set, "ReplacingPod", "%s", step)
		return outcome.Failed(r.Apply.Delete(ctx, f.Pods[step.Pod]))
	case rollout.ForgetPod:
		return r.forgetPod(ctx, set, f, step)
	case rollout.SetRole:
		return outcome.Failed(r.SetRole(ctx, f.Pods[step.Pod], step.Role))
	case rollout.UpdateImage:
		return r.updateImage(ctx, set, f, step)
	case rollout.ResizePod:
		return r.resizePod(ctx, set, f, step)
	case rollout.PushPlan:
		return r.pushPlan(ctx, set, f, step)
	case rollout.ReloadPlan:
		return r.reloadPlan(ctx, set, f, step)
	case rollout.SwitchOver:
		return r.Primary.SwitchOver(ctx, set, f.Draft, step)
	case rollout.Hold:
		return r.Primary.Hold(set, f.Draft, step)
	}
	return outcome.Failed(fmt.Errorf("there is no action %q", step.Action))
}

func (r *Reconciler) createPod(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	step rollout.Step) outcome.Outcome {
	if o := r.Claims.Provide(ctx, set, f.Facts, step.Ordinal); o.Kind() != outcome.KindDone {
		return o
	}
	if lacksAddress(&f.Plan, step.Pod) {
		return outcome.Waiting(platformv1.ReasonAddressPending, render.AwaitsAddress(step.Pod))
	}
	want, err := r.rendered.pod(set, step.Ordinal)
	if err != nil {
		return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
	}
	pod := want.DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[platformv1.ResourcesAnnotation] = resourceNames(pod)
	tellLastLines(&pod.Spec)
	if err := controllerutil.SetControllerReference(set, pod, r.Client.Scheme()); err != nil {
		return outcome.Failed(err)
	}
	if _, err := r.Apply.Create(ctx, pod); err != nil {
		return apply.Outcome(err)
	}
	return outcome.Done()
}

// tellLastLines has the kubelet put the last lines of the log of a container that fails into the status of its pod,
// unless the plugin says otherwise. It is no part of the template: a pod that runs is not replaced for it.
func tellLastLines(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			policy := &containers[i].TerminationMessagePolicy
			*policy = cmp.Or(*policy, corev1.TerminationMessageFallbackToLogsOnError)
		}
	}
}

// SetRole patches the role label, which selects the pod for Services.
func (r *Reconciler) SetRole(ctx context.Context, pod *corev1.Pod, role string) error {
	value := any(role)
	if role == "" {
		value = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    pod.UID, // another pod under this name is refused
		"labels": map[string]any{platformv1.RoleLabel: value},
	}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, AddressOf(pod), client.RawPatch(types.MergePatchType, body),
		client.FieldOwner(facts.Owner))
	return client.IgnoreNotFound(err)
}

// annotate writes one annotation of a pod; a pod that is gone needs none.
func (r *Reconciler) annotate(ctx context.Context, pod *corev1.Pod, key, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{key: value},
	}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, AddressOf(pod), client.RawPatch(types.MergePatchType, body), client.FieldOwner(facts.Owner))
	return client.IgnoreNotFound(err)
}

// AddressOf names a pod for a patch, which fills in no more than its metadata: nobody asks for the rest.
func AddressOf(pod *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
	}
}

// updateImage patches the images of the containers. The pod keeps its address and its volumes.
func (r *Reconciler) updateImage(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	step rollout.Step) outcome.Outcome {
	pod := f.Pods[step.Pod]
	body, err := imagePatch(pod, f.wanted[step.Pod])
	if err != nil {
		return outcome.Failed(err)
	}
	r.Events.Normal(set, "UpdatingImage", "%s", step)
	err = r.Client.Patch(ctx, AddressOf(pod), client.RawPatch(types.StrategicMergePatchType, body),
		client.FieldOwner(facts.Owner))
	if apierrors.IsInvalid(err) {
		return outcome.Stalled(platformv1.ReasonInvalidSpec, fmt.Sprintf(
			"pod %s keeps its image, since the API server rejects the new one (%v): correct the image", pod.Name, err))
	}
	return outcome.Failed(client.IgnoreNotFound(err))
}

// resizePod gives the containers of a pod other resources while they run. What the server refuses (another
// class of service, a resource that is gone) needs another pod: this pod is the next one to change in any case.
func (r *Reconciler) resizePod(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	step rollout.Step) outcome.Outcome {
	pod, want := f.Pods[step.Pod], f.wanted[step.Pod]
	body, err := resizePatch(pod, want)
	if err != nil {
		return outcome.Failed(err)
	}
	err = r.Client.SubResource("resize").Patch(ctx, AddressOf(pod), client.RawPatch(types.StrategicMergePatchType, body),
		client.FieldOwner(facts.Owner))
	switch {
	case apierrors.IsInvalid(err), apierrors.IsMethodNotSupported(err):
		return r.replaceInstead(ctx, set, f, pod, err.Error())
	case apierrors.HasStatusCause(err, nodeCapacity):
		return r.outgrown(ctx, set, f, want, err)
	case apierrors.IsForbidden(err):
		// A quota, which another pod would not fit into either.
		return outcome.StalledFor(quotaRecheck, platformv1.ReasonResizePending,
			fmt.Sprintf("pod %s runs with the resources that it has, since the API server rejects the new ones: %v; raise "+
				"the quota, or set the resources back", pod.Name, err))
	case err == nil:
		r.Events.Normal(set, "ResizingPod", "%s", step)
	}
	return outcome.Failed(client.IgnoreNotFound(err))
}

// nodeCapacity is the cause by which an API server from 1.36 on refuses resources that the node of a pod can never
// give. Before, its kubelet says that the resize is Infeasible.
const nodeCapacity metav1.CauseType = "NodeCapacity"

// outgrown has a pod whose node can never give it the new resources go to one that could, if there is one.
func (r *Reconciler) outgrown(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict, want *corev1.Pod,
	refusal error) outcome.Outcome {
	said := fmt.Sprintf(" (%v)", refusal)
	node, err := r.roomyNode(ctx, f, want)
	switch {
	case err != nil:
		return outcome.Failed(err)
	case node == "":
		return outcome.StalledFor(nodesRecheck, platformv1.ReasonResizeInfeasible,
			fmt.Sprintf("pod %s: %s", want.Name, noRoomAnywhere(said)))
	}
	return r.replaceInstead(ctx, set, f, want, roomElsewhere(said, node))
}

// replaceInstead has another pod come in place of one that cannot be resized, when there is a window for that.
func (r *Reconciler) replaceInstead(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict, pod *corev1.Pod,
	why string) outcome.Outcome {
	r.refusals.note(f.Pods[pod.Name], set.Generation, why)
	if f.Rollout.Window == rollout.Closed {
		f.WakeAfter(f.Opening.Sub(f.Now))
		return AwaitWindow(f, []rollout.Step{{Action: rollout.DeletePod, Pod: pod.Name}})
	}
	return r.instead(ctx, set, f, pod.Name, func(p *rollout.Pod) { p.Resources, p.Note = rollout.Replace, why })
}

// NoteResources keeps the names of the resources that are ours up to date on pods that were resized.
func (r *Reconciler) NoteResources(ctx context.Context, f *Verdict) error {
	for name, want := range f.wanted {
		pod := f.Pods[name]
		names := resourceNames(want)
		if known := pod.Annotations[platformv1.ResourcesAnnotation]; known == "" || known == names ||
			len(resourceChanges(pod, want)) > 0 {
			continue
		}
		if err := r.annotate(ctx, pod, platformv1.ResourcesAnnotation, names); err != nil {
			return err
		}
	}
	return nil
}

// instead executes the stronger step that a pod needs after a weaker one was not enough. A disruptive step needs the
// disruption lock, which the weaker one did not.
func (r *Reconciler) instead(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict, pod string,
	change func(*rollout.Pod)) outcome.Outcome {
	for i := range f.Rollout.Pods {
		if f.Rollout.Pods[i].Name == pod {
			change(&f.Rollout.Pods[i])
		}
	}
	steps := rollout.Plan(f.Rollout)
	if !f.holdsLock {
		var release func()
		var err error
		if steps, release, err = r.Acquire(ctx, set, f, steps); err != nil {
			return outcome.Failed(err)
		}
		defer release()
		if f.Awaits.What != "" {
			return AwaitDisruption(f, f.Rollout.Held())
		}
	}
	for _, step := range steps {
		if step.Pod == pod && step.Action != rollout.SetRole {
			return r.take(ctx, set, f, step)
		}
	}
	return outcome.Done()
}
