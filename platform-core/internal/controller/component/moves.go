// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// moves says whether parts of the data may go from one set to another: not while a Backup takes them one after the
// other. A Backup that begins in the same moment waits for a call that is on record (package backup), and fails where
// both have missed each other.
func (c *Controller) moves(ctx context.Context, component *platformv1.Component) (plugin.Moves, error) {
	var backups platformv1.BackupList
	err := c.client.List(ctx, &backups, client.InNamespace(component.Namespace),
		client.MatchingFields{partsField: component.Spec.Application}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", fmt.Errorf("cannot list the Backups of Application %q: %w", component.Spec.Application, err)
	}
	if slices.ContainsFunc(backups.Items,
		func(b platformv1.Backup) bool { return takesParts(&b, component.Spec.Component) }) {
		return plugin.MovesHeld, nil
	}
	return plugin.MovesAllowed, nil
}

// unknownMoves is what agents say that were made before anybody told them whether parts of the data may move. Pods keep
// theirs when an operator is upgraded.
const unknownMoves = `unknown field "moves"`

// explained says what the failure of a call means, where an agent cannot know.
func (m *members) explained(failure string) string {
	if m.Moves != plugin.MovesHeld || !strings.Contains(failure, unknownMoves) {
		return failure
	}
	return "its agent is of an earlier version, which cannot change members while a Backup takes the data of the " +
		"sets: members are changed once the Backup has ended; delete the pods, one after the other, to have them come " +
		"back with the agent of this version"
}

// partsField indexes Backups that take the data of sets now, by the name of their Application: there are few of them,
// however many are kept.
const partsField = "takesPartsOf"

func partsOf(obj client.Object) []string {
	if b := obj.(*platformv1.Backup); b.Status.Phase == platformv1.BackupRunning && len(b.Status.Sources) > 0 {
		return []string{b.Spec.ApplicationRef.Name}
	}
	return nil
}

// takesParts says whether a Backup takes the data of the sets of a component.
func takesParts(b *platformv1.Backup, component string) bool {
	return b.Status.Phase == platformv1.BackupRunning &&
		slices.ContainsFunc(b.Status.Sources, func(s platformv1.BackupSource) bool { return s.Component == component })
}

// begunOrEnded passes the Backups that have begun to take the data of sets, or have ended.
var begunOrEnded = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*platformv1.Backup), e.ObjectNew.(*platformv1.Backup)
		return len(after.Status.Sources) > 0 && before.Status.Phase != after.Status.Phase
	},
	DeleteFunc: func(e event.DeleteEvent) bool { return len(e.Object.(*platformv1.Backup).Status.Sources) > 0 },
}

// ofBackup wakes the Component whose sets a Backup takes the data of.
func (c *Controller) ofBackup(_ context.Context, obj client.Object) []reconcile.Request {
	b := obj.(*platformv1.Backup)
	if len(b.Status.Sources) == 0 {
		// It had not begun: what has come of it is asked about as well.
		return nil
	}
	name := platformv1.ComponentNameFor(b.Spec.ApplicationRef.Name, b.Status.Sources[0].Component)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: b.Namespace, Name: name}}}
}
