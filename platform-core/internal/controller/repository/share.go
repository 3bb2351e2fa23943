// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

const (
	// useLook is how often it is looked whether they still do.
	useLook = 15 * time.Second
)

func ownerOf(r *platformv1.BackupRepository) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: platformv1.GroupVersion.String(), Kind: "BackupRepository", Name: r.Name,
		UID: r.UID, Controller: new(true)}
}

// ensureShare makes the volume and the claim of a repository on NFS where they are not there, whichever operator comes
// first. The finalizer is there before the volume, which no owner takes along: it is of no namespace.
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
			return fmt.Errorf("cannot make %T %q of BackupRepository %q: %w", object, object.GetName(),
				client.ObjectKeyFromObject(r), err)
		}
	}
	return nil
}

// removeShare deletes the volume of a repository that goes, and lets that go, once no instance keeps its archive there:
// without its claim no pod of one would start any more. What is on the server stays there.
func (c *Controller) removeShare(ctx context.Context, r *platformv1.BackupRepository) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(r, platformv1.ShareFinalizer) {
		return reconcile.Result{}, nil
	}
	switch users, err := c.archivers(ctx, r); {
	case err != nil:
		return reconcile.Result{}, err
	case len(users) > 0:
		return reconcile.Result{RequeueAfter: useLook}, c.tellInUse(ctx, r, users)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: platformv1.ShareNameFor(r)}}
	if err := c.client.Delete(ctx, volume); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("cannot delete PersistentVolume %q: %w", volume.Name, err)
	}
	before := r.DeepCopy()
	controllerutil.RemoveFinalizer(r, platformv1.ShareFinalizer)
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.client.Patch(ctx, r, bound, client.FieldOwner(owner))
	if apierrors.IsConflict(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// archivers are the Applications, of whichever domain, whose pods have the volume of a repository: those whose
// Components say so, also when their spec does not any more.
func (c *Controller) archivers(ctx context.Context, r *platformv1.BackupRepository) ([]string, error) {
	var components platformv1.ComponentList
	if err := c.live.List(ctx, &components, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("cannot list the Components that may use BackupRepository %q: %w",
			client.ObjectKeyFromObject(r), err)
	}
	var users []string
	for i := range components.Items {
		component := &components.Items[i]
		if place := component.Spec.Archive; place != nil && place.Repository == r.Name &&
			component.DeletionTimestamp.IsZero() {
			users = append(users, component.Spec.Application)
		}
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// tellInUse says what keeps a repository from going.
func (c *Controller) tellInUse(ctx context.Context, r *platformv1.BackupRepository, users []string) error {
	state := platformv1.RepositoryState{Domain: c.Domain}
	if before := stateOf(r, c.Domain); before != nil {
		state = *before.DeepCopy()
	}
	state.Ready, state.Reason = metav1.ConditionFalse, reasonInUse
	state.Message = fmt.Sprintf("it is being deleted, and the pods of Application %s have its volume, which they keep "+
		"their archive on: name another BackupRepository in their archive, or take that out", strings.Join(users, ", "))
	err := c.record(ctx, r, state)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
