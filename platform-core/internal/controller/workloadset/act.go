// SPDX-License-Identifier: Apache-2.0

package workloadset

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

// act brings about what the pods stand on, then the steps. What the agents may do comes beside that: the API server
// takes some hundred milliseconds for it, and an agent that is sooner asks again.
func (c *Controller) act(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	steps []rollout.Step) outcome.Outcome {
	if f.rollout.Mode == rollout.Suspended {
		return outcome.Failed(c.keepCertificates(ctx, set, f))
	}
	switch err := c.ensureFinalizer(ctx, set); {
	case apierrors.IsNotFound(err):
		return outcome.Done()
	case err != nil:
		return outcome.Failed(err)
	}
	var o outcome.Outcome
	rights := rightsOf(set, f)
	err := frame.Together(
		func() error { return c.applyInOrder(ctx, set, rights) },
		func() error { return c.tellZones(ctx, f) },
		func() error { o = c.reconcilePods(ctx, set, f, steps); return nil },
	)
	if err != nil {
		return outcome.Worst(apply.Outcome(err), o)
	}
	return o
}

// reconcilePods applies what pods need to start, and executes the steps.
func (c *Controller) reconcilePods(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	steps []rollout.Step) outcome.Outcome {
	if err := c.ensureShared(ctx, set, f); err != nil {
		return apply.Outcome(err)
	}
	claims := c.reconcileClaims(ctx, set, f)
	if claims.Kind() == outcome.KindFailed {
		return claims
	}
	if err := c.noteResources(ctx, f); err != nil {
		return outcome.Failed(err)
	}
	if o := c.takeOver(ctx, set, f); o != nil {
		return *o
	}
	if o := c.restore(ctx, set, f); o != nil {
		return *o
	}
	return outcome.Worst(claims, c.takeAll(ctx, set, f, steps))
}

// takeAll takes the steps: first those that make pods or give roles, of which none waits for another (the planner puts
// what does into another reconcile), then those that change pods, in their order.
func (c *Controller) takeAll(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	steps []rollout.Step) outcome.Outcome {
	outcomes := make([]outcome.Outcome, len(steps))
	var free []func() error
	var ordered []int
	for i, step := range steps {
		if step.Action == rollout.CreatePod || step.Action == rollout.SetRole {
			free = append(free, func() error { outcomes[i] = c.take(ctx, set, f, step); return nil })
			continue
		}
		ordered = append(ordered, i)
	}
	if err := frame.Together(free...); err != nil {
		return outcome.Failed(err)
	}
	for _, i := range ordered {
		outcomes[i] = c.take(ctx, set, f, steps[i])
	}
	return outcome.Worst(outcomes...)
}

func (c *Controller) take(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	step rollout.Step) outcome.Outcome {
	switch step.Action {
	case rollout.CreatePod:
		return c.createPod(ctx, set, f, step)
	case rollout.DeletePod:
		c.events.Normal(set, "ReplacingPod", "%s", step)
		return outcome.Failed(c.apply.Delete(ctx, f.pods[step.Pod]))
	case rollout.ForgetPod:
		return c.forgetPod(ctx, set, f, step)
	case rollout.SetRole:
		return outcome.Failed(c.setRole(ctx, f.pods[step.Pod], step.Role))
	case rollout.UpdateImage:
		return c.updateImage(ctx, set, f, step)
	case rollout.ResizePod:
		return c.resizePod(ctx, set, f, step)
	case rollout.PushPlan:
		return c.pushPlan(ctx, set, f, step)
	case rollout.ReloadPlan:
		return c.reloadPlan(ctx, set, f, step)
	case rollout.SwitchOver:
		if set.Spec.Failover != nil {
			// It is an order to the primary, which is carried out when the primary is looked after.
			return switching(f, step.Pod, step.String())
		}
		return c.switchOver(ctx, set, f, step)
	case rollout.Hold:
		return hold(set, f, step)
	}
	return outcome.Failed(fmt.Errorf("there is no action %q", step.Action))
}

func (c *Controller) createPod(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	step rollout.Step) outcome.Outcome {
	if o := c.provide(ctx, set, f, step.Ordinal); o.Kind() != outcome.KindDone {
		return o
	}
	if lacksAddress(&f.plan, step.Pod) {
		return outcome.Waiting(platformv1.ReasonAddressPending, render.AwaitsAddress(step.Pod))
	}
	want, err := c.rendered.pod(set, step.Ordinal)
	if err != nil {
		return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
	}
	pod := want.DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[platformv1.ResourcesAnnotation] = resourceNames(pod)
	tellLastLines(&pod.Spec)
	if err := controllerutil.SetControllerReference(set, pod, c.client.Scheme()); err != nil {
		return outcome.Failed(err)
	}
	if _, err := c.apply.Create(ctx, pod); err != nil {
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

// setRole patches the role label, which selects the pod for Services.
func (c *Controller) setRole(ctx context.Context, pod *corev1.Pod, role string) error {
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
	err = c.client.Patch(ctx, addressOf(pod), client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	return client.IgnoreNotFound(err)
}

// addressOf names a pod for a patch, which fills in no more than its metadata: nobody asks for the rest.
func addressOf(pod *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
	}
}

// updateImage patches the images of the containers. The pod keeps its address and its volumes.
func (c *Controller) updateImage(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	step rollout.Step) outcome.Outcome {
	pod := f.pods[step.Pod]
	body, err := imagePatch(pod, f.wanted[step.Pod])
	if err != nil {
		return outcome.Failed(err)
	}
	c.events.Normal(set, "UpdatingImage", "%s", step)
	err = c.client.Patch(ctx, addressOf(pod), client.RawPatch(types.StrategicMergePatchType, body),
		client.FieldOwner(owner))
	if apierrors.IsInvalid(err) {
		return outcome.Stalled(platformv1.ReasonInvalidSpec, fmt.Sprintf("pod %s cannot have the image: %v", pod.Name, err))
	}
	return outcome.Failed(client.IgnoreNotFound(err))
}

// resizePod gives the containers of a pod other resources while they run. What the server refuses (another
// class of service, a resource that is gone) needs another pod: this pod is the next one to change in any case.
func (c *Controller) resizePod(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	step rollout.Step) outcome.Outcome {
	pod, want := f.pods[step.Pod], f.wanted[step.Pod]
	body, err := resizePatch(pod, want)
	if err != nil {
		return outcome.Failed(err)
	}
	err = c.client.SubResource("resize").Patch(ctx, addressOf(pod), client.RawPatch(types.StrategicMergePatchType, body),
		client.FieldOwner(owner))
	switch {
	case apierrors.IsInvalid(err), apierrors.IsMethodNotSupported(err):
		return c.replaceInstead(ctx, set, f, pod, err.Error())
	case apierrors.HasStatusCause(err, nodeCapacity):
		return c.outgrown(ctx, set, f, want, err)
	case apierrors.IsForbidden(err):
		// A quota, which another pod would not fit into either.
		return outcome.StalledFor(quotaRecheck, platformv1.ReasonResizePending,
			fmt.Sprintf("pod %s may not have the new resources: %v", pod.Name, err))
	case err == nil:
		c.events.Normal(set, "ResizingPod", "%s", step)
	}
	return outcome.Failed(client.IgnoreNotFound(err))
}

// nodeCapacity is the cause by which an API server from 1.36 on refuses resources that the node of a pod can never
// give. Before, its kubelet says that the resize is Infeasible.
const nodeCapacity metav1.CauseType = "NodeCapacity"

// outgrown has a pod whose node can never give it the new resources go to one that could, if there is one.
func (c *Controller) outgrown(ctx context.Context, set *platformv1.WorkloadSet, f *facts, want *corev1.Pod,
	refusal error) outcome.Outcome {
	said := fmt.Sprintf(" (%v)", refusal)
	node, err := c.roomyNode(ctx, f, want)
	switch {
	case err != nil:
		return outcome.Failed(err)
	case node == "":
		return outcome.StalledFor(nodesRecheck, platformv1.ReasonResizeInfeasible,
			fmt.Sprintf("pod %s: %s", want.Name, noRoomAnywhere(said)))
	}
	return c.replaceInstead(ctx, set, f, want, roomElsewhere(said, node))
}

// replaceInstead has another pod come in place of one that cannot be resized, when there is a window for that.
func (c *Controller) replaceInstead(ctx context.Context, set *platformv1.WorkloadSet, f *facts, pod *corev1.Pod,
	why string) outcome.Outcome {
	c.refusals.note(f.pods[pod.Name], set.Generation, why)
	if f.rollout.Window == rollout.Closed {
		f.wakeAfter(f.opening.Sub(f.now))
		return awaitWindow(f, []rollout.Step{{Action: rollout.DeletePod, Pod: pod.Name}})
	}
	return c.instead(ctx, set, f, pod.Name, func(p *rollout.Pod) { p.Resources, p.Note = rollout.Replace, why })
}

// noteResources keeps the names of the resources that are ours up to date on pods that were resized.
func (c *Controller) noteResources(ctx context.Context, f *facts) error {
	for name, want := range f.wanted {
		pod := f.pods[name]
		names := resourceNames(want)
		if known := pod.Annotations[platformv1.ResourcesAnnotation]; known == "" || known == names ||
			len(resourceChanges(pod, want)) > 0 {
			continue
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": pod.UID, "annotations": map[string]string{platformv1.ResourcesAnnotation: names},
		}})
		if err != nil {
			return err
		}
		err = c.client.Patch(ctx, addressOf(pod), client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
