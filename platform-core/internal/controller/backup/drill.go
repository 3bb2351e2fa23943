// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// verdictField indexes Operations that wait for a Backup to say what their drill has come to, by the name of the
// Backup.
const verdictField = "verdictOnBackup"

func verdictOn(op client.Object) []string {
	if v := opsflow.VerdictOf(op.(*platformv1.Operation)); v != nil {
		return []string{v.Backup}
	}
	return nil
}

// judged passes Operations whose drill has come to something.
var judged = predicate.NewPredicateFuncs(
	func(op client.Object) bool { return opsflow.VerdictOf(op.(*platformv1.Operation)) != nil })

// arrived passes what is there and what changes, and nothing that goes.
var arrived = predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}

// ofVerdict wakes the Backup that a drill is of.
func ofVerdict(_ context.Context, op client.Object) []reconcile.Request {
	v := opsflow.VerdictOf(op.(*platformv1.Operation))
	if v == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: op.GetNamespace(), Name: v.Backup}}}
}

// verified is the latest that a drill has come to which the Backup does not say yet; nil for none.
func (c *Controller) verified(ctx context.Context, b *platformv1.Backup) (*platformv1.BackupVerification, error) {
	var list platformv1.OperationList
	err := c.client.List(ctx, &list, client.InNamespace(b.Namespace), client.MatchingFields{verdictField: b.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("cannot list the drills of Backup %q: %w", b.Name, err)
	}
	var latest *platformv1.BackupVerification
	for i := range list.Items {
		v := opsflow.VerdictOf(&list.Items[i])
		if v == nil || v.UID != b.UID || v.ToldBy(b) || latest != nil && v.Verification.Time.Before(&latest.Time) {
			continue
		}
		latest = &v.Verification
	}
	return latest, nil
}
