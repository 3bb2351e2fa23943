// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// ensureFinalizer has the set wait for its volumes to be deleted, when the policy
// asks for that, with a snapshot of each before or without. With Retain there is nothing to do at the end, so no
// finalizer. It stays when the last volume is no longer mounted: that is still there. A set that is gone meanwhile is
// NotFound: a volume that is made for it all the same would stay for ever.
func (c *Controller) ensureFinalizer(ctx context.Context, set *platformv1.WorkloadSet) error {
	has := controllerutil.ContainsFinalizer(set, platformv1.VolumesFinalizer)
	wanted := deletesVolumes(set.Spec.DeletionPolicy) && (has || len(set.Spec.Volumes) > 0)
	if wanted == has {
		return nil
	}
	finalizers := slices.DeleteFunc(slices.Clone(set.Finalizers),
		func(f string) bool { return f == platformv1.VolumesFinalizer })
	if wanted {
		finalizers = append(finalizers, platformv1.VolumesFinalizer)
	}
	return c.patchFinalizers(ctx, set, finalizers)
}

// deletesVolumes says whether volumes go with their set.
func deletesVolumes(policy platformv1.DeletionPolicy) bool {
	return policy == platformv1.DeletionPolicyDelete || policy == platformv1.DeletionPolicySnapshot
}

// patchFinalizers replaces the list, provided that nobody changed the object meanwhile. The error is NotFound when it
// is gone.
func (c *Controller) patchFinalizers(ctx context.Context, set *platformv1.WorkloadSet, finalizers []string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": set.ResourceVersion,
		"finalizers":      finalizers,
	}})
	if err != nil {
		return err
	}
	patched := set.DeepCopy()
	if err := c.client.Patch(ctx, patched, client.RawPatch(client.Merge.Type(), body),
		client.FieldOwner(owner)); err != nil {
		return err
	}
	set.Finalizers, set.ResourceVersion = patched.Finalizers, patched.ResourceVersion
	return nil
}

// delete ends the pods, then the volumes, under the policy Snapshot once there is a snapshot of each, then lets the set
// go. It has work only where the policy has volumes go with the set; one that becomes Retain meanwhile ends that.
func (c *Controller) delete(ctx context.Context, set *platformv1.WorkloadSet) outcome.Outcome {
	if !controllerutil.ContainsFinalizer(set, platformv1.VolumesFinalizer) {
		return outcome.Waiting(platformv1.ReasonDeleting, "pods are being removed; volumes are kept")
	}
	if !deletesVolumes(set.Spec.DeletionPolicy) {
		return c.letGo(ctx, set)
	}
	// What was made a moment ago may not be in the cache yet, and nobody comes back for it once the set is gone.
	for _, reader := range []client.Reader{c.client, c.live} {
		left, err := c.deletePods(ctx, reader, set)
		if err != nil {
			return outcome.Failed(err)
		}
		if left > 0 {
			return outcome.Waiting(platformv1.ReasonDeleting,
				fmt.Sprintf("waiting for %d pods to end before their volumes are deleted", left))
		}
	}
	// Somebody may have said in the meantime that the volumes are to stay.
	if err := c.apply.Current(ctx, set); err != nil {
		return outcome.Failed(err)
	}
	if o := c.volumes.Delete(ctx, set); o.Kind() != outcome.KindDone {
		return o
	}
	return c.letGo(ctx, set)
}

// letGo has the set wait for its volumes no more.
func (c *Controller) letGo(ctx context.Context, set *platformv1.WorkloadSet) outcome.Outcome {
	remaining := slices.DeleteFunc(slices.Clone(set.Finalizers),
		func(f string) bool { return f == platformv1.VolumesFinalizer })
	return outcome.Failed(client.IgnoreNotFound(c.patchFinalizers(ctx, set, remaining)))
}

// deletePods has all pods of the set that the reader knows end, and says how many those are.
func (c *Controller) deletePods(ctx context.Context, reader client.Reader, set *platformv1.WorkloadSet) (int, error) {
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(set.Namespace), facts.Selector(set)); err != nil {
		return 0, err
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			if err := c.apply.Delete(ctx, &pods.Items[i]); err != nil {
				return 0, err
			}
		}
	}
	return len(pods.Items), nil
}
