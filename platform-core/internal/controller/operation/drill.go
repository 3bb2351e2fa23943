// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// drill carries out what a restore drill asks for.
func (c *Controller) drill(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Drill) (*opsflow.Answer, error) {
	switch wanted.Verb {
	case opsflow.DrillChoose:
		return c.chooseBackup(ctx, op, seen, wanted.Choice)
	case opsflow.DrillRead:
		backup := &platformv1.Backup{}
		err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Backup}, backup)
		if apierrors.IsNotFound(err) {
			return &opsflow.Answer{}, nil
		}
		return &opsflow.Answer{Backup: backup}, err
	case opsflow.DrillMake:
		if refusal, err := c.makeInstance(ctx, op, wanted.Instance); refusal != nil || err != nil {
			return refusal, err
		}
		return c.watchInstance(ctx, op, wanted.Instance.Name)
	case opsflow.DrillRemove:
		remains, err := c.removeInstance(ctx, op, wanted.Name)
		return &opsflow.Answer{Remains: remains}, err
	}
	return c.watchInstance(ctx, op, wanted.Name)
}

// chooseBackup reads the Backups of the Application from the API server: one that has just become whole is the newest.
func (c *Controller) chooseBackup(ctx context.Context, op *platformv1.Operation, seen *observation,
	choice opsflow.BackupChoice) (*opsflow.Answer, error) {
	var list platformv1.BackupList
	err := c.live.List(ctx, &list, client.InNamespace(op.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: seen.application})
	if err != nil {
		return nil, fmt.Errorf("cannot list the Backups of Application %q: %w", seen.application, err)
	}
	backup, why := choice.Among(seen.application, list.Items)
	if backup == nil {
		return refuse("%s", why), nil
	}
	return &opsflow.Answer{Backup: backup}, nil
}

// makeInstance makes the instance of a drill under its name, unless there is one already. It goes with the Operation,
// whoever deletes that.
func (c *Controller) makeInstance(ctx context.Context, op *platformv1.Operation,
	wanted *platformv1.Application) (*opsflow.Answer, error) {
	app := wanted.DeepCopy()
	app.Labels[platformv1.DomainLabel], app.Labels[platformv1.ManagedByLabel] = c.Domain, platformv1.ManagedBy
	// It is no controller: what declares the instance is the Application itself.
	app.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: platformv1.GroupVersion.String(), Kind: operationKind, Name: op.Name, UID: op.UID}}
	err := c.client.Create(ctx, app, client.FieldOwner(owner))
	switch {
	case apierrors.IsAlreadyExists(err), err == nil:
		return nil, nil
	case refused(err):
		return refuse("Application %q cannot be made: %v", wanted.Name, err), nil
	}
	return nil, fmt.Errorf("cannot make Application %q: %w", wanted.Name, err)
}

// operationKind is the kind of the owner of what Operations make.
const operationKind = "Operation"

// madeBy says whether the drill of an Operation made an Application.
func madeBy(op *platformv1.Operation, app *platformv1.Application) bool {
	for _, reference := range app.OwnerReferences {
		if reference.Kind == operationKind && reference.UID == op.UID {
			return app.Labels[platformv1.DrillLabel] != ""
		}
	}
	return false
}

// watchInstance reads the instance of a drill; there is none where somebody else has the name.
func (c *Controller) watchInstance(ctx context.Context, op *platformv1.Operation,
	name string) (*opsflow.Answer, error) {
	app := &platformv1.Application{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: name}, app)
	switch {
	case apierrors.IsNotFound(err):
		return &opsflow.Answer{}, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read Application %q: %w", name, err)
	case !madeBy(op, app):
		return refuse("there is an Application %q that is not of this Operation: delete it", name), nil
	}
	return &opsflow.Answer{Instance: app}, nil
}

// removeInstance deletes the instance of a drill, and says in words what is left of it. It stays until all that is made
// from it is gone, and its volumes may stay a moment longer.
func (c *Controller) removeInstance(ctx context.Context, op *platformv1.Operation, name string) (remains []string,
	err error) {
	answer, err := c.watchInstance(ctx, op, name)
	if err != nil || answer.Failure != "" {
		return nil, err
	}
	if app := answer.Instance; app != nil {
		if app.DeletionTimestamp.IsZero() {
			err = c.client.Delete(ctx, app, client.PropagationPolicy(metav1.DeletePropagationForeground),
				client.Preconditions{UID: &app.UID})
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("cannot delete Application %q: %w", name, err)
		}
		return []string{fmt.Sprintf("Application %q", name)}, nil
	}
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&pods, &claims} {
		if err := c.live.List(ctx, list, client.InNamespace(op.Namespace),
			client.MatchingLabels{platformv1.ApplicationLabel: name}); err != nil {
			return nil, fmt.Errorf("cannot list what is left of Application %q: %w", name, err)
		}
	}
	for i := range pods.Items {
		remains = append(remains, fmt.Sprintf("pod %q", pods.Items[i].Name))
	}
	for i := range claims.Items {
		remains = append(remains, fmt.Sprintf("PersistentVolumeClaim %q", claims.Items[i].Name))
	}
	return remains, nil
}

// leaveNothing has the instances go that the drill of an Operation made which ends without a turn of its own to do so:
// its target is gone, or its plugin.
func (c *Controller) leaveNothing(ctx context.Context, op *platformv1.Operation) error {
	for _, name := range opsflow.Drilled(op) {
		if _, err := c.removeInstance(ctx, op, name); err != nil {
			return err
		}
	}
	return nil
}

// ofDrill wakes the Operation whose drill made an Application.
func ofDrill(app client.Object) []reconcile.Request {
	if app.GetLabels()[platformv1.DrillLabel] == "" {
		return nil
	}
	for _, reference := range app.GetOwnerReferences() {
		if reference.Kind == operationKind {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: app.GetNamespace(), Name: reference.Name}}}
		}
	}
	return nil
}
