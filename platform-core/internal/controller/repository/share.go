// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

func ownerOf(r *platformv1.BackupRepository) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: platformv1.GroupVersion.String(), Kind: "BackupRepository", Name: r.Name, UID: r.UID, Controller: new(true)}
}

// ensureShare makes the volume and the claim of a repository on NFS where they are not there, whichever operator comes first. The finalizer is there before
// the volume, which no owner takes along: it is of no namespace.
func (c *Controller) ensureShare(ctx context.Context, r *platformv1.BackupRepository) error {
	if r.Spec.NFS == nil {
		return nil
	}
	before := r.DeepCopy()
	if controllerutil.AddFinalizer(r, platformv1.ShareFinalizer) {
		bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.client.Patch(ctx, r, bound, client.FieldOwner(owner)); err != nil {
			return fmt.Errorf("cannot add the finalizer of BackupRepository %q: %w", client.ObjectKeyFromObject(r), err)
		}
	}
	volume, claim := render.Share(r, ownerOf(r))
	for _, object := range []client.Object{volume, claim} {
		err := c.live.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			err = c.client.Create(ctx, object, client.FieldOwner(owner))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cannot make %T %q of BackupRepository %q: %w", object, object.GetName(), client.ObjectKeyFromObject(r), err)
		}
	}
	return nil
}

// removeShare deletes the volume of a repository that goes, and lets that go. What is on the server stays there.
func (c *Controller) removeShare(ctx context.Context, r *platformv1.BackupRepository) error {
	if !controllerutil.ContainsFinalizer(r, platformv1.ShareFinalizer) {
		return nil
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: platformv1.ShareNameFor(r)}}
	if err := c.client.Delete(ctx, volume); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete PersistentVolume %q: %w", volume.Name, err)
	}
	before := r.DeepCopy()
	controllerutil.RemoveFinalizer(r, platformv1.ShareFinalizer)
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.client.Patch(ctx, r, bound, client.FieldOwner(owner))
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
