// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// ended passes the Backups that have just become whole, or failed.
var ended = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*platformv1.Backup), e.ObjectNew.(*platformv1.Backup)
		return after.Ended() && before.Status.Phase != after.Status.Phase
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func repositoryOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.(*platformv1.Backup).Spec.RepositoryRef.Name
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// observeUse reads when Backups of the domain were last whole in a repository, and last failed with a mover under way.
func (c *Controller) observeUse(ctx context.Context, r *platformv1.BackupRepository, f *facts) error {
	var list platformv1.BackupList
	if err := c.client.List(ctx, &list, client.InNamespace(r.Namespace),
		client.MatchingLabels{platformv1.DomainLabel: c.Domain}); err != nil {
		return fmt.Errorf("cannot list the Backups of BackupRepository %q: %w", client.ObjectKeyFromObject(r), err)
	}
	for i := range list.Items {
		b := &list.Items[i]
		if b.Spec.RepositoryRef.Name != r.Name || b.Status.CompletionTime == nil {
			continue
		}
		switch {
		case b.Status.Phase == platformv1.BackupCompleted:
			f.used = later(f.used, b.Status.CompletionTime.Time)
		case b.Status.Phase == platformv1.BackupFailed && b.Status.Mover != "":
			f.doubted = later(f.doubted, b.Status.CompletionTime.Time)
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// used adds to a decision when a repository was last used. A Backup that is deleted takes nothing of that away.
func used(d decision, before *platformv1.RepositoryState, f facts) decision {
	last := f.used
	if before != nil && before.LastBackupTime != nil {
		last = later(last, before.LastBackupTime.Time)
	}
	if d.state.LastBackupTime = nil; !last.IsZero() {
		d.state.LastBackupTime = new(metav1.NewTime(last))
	}
	return d
}

// stale says whether what was found ready is to be checked again: when something spoke against it since, which is a
// Backup or an inventory that failed, and before each inventory that is due. Else nothing is looked at, and nothing
// written.
func stale(checked time.Time, f facts) bool {
	doubted := f.doubted
	if f.latest != nil && f.latest.Message != "" {
		doubted = later(doubted, f.latest.Tried.Time)
	}
	if doubted.After(checked) {
		return true
	}
	wait, again := untilDue(f)
	return f.latest != nil && f.listing == nil && again && wait <= 0 && checked.Before(f.now.Add(wait))
}
