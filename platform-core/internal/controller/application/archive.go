// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// ofRepository wakes the Applications that name a BackupRepository. What it says of its volume tells when that comes or
// goes.
func (c *Controller) ofRepository(ctx context.Context, repository client.Object) []reconcile.Request {
	return c.those(ctx, func(app *platformv1.Application) bool {
		if a := app.Spec.Archive; a != nil && a.RepositoryRef.Name == repository.GetName() {
			return true
		}
		from := app.Spec.RestoreFrom
		return from != nil && from.Target != nil && from.Target.RepositoryRef != nil &&
			from.Target.RepositoryRef.Name == repository.GetName() && app.Status.RestoredFrom == nil
	}, client.InNamespace(repository.GetNamespace()))
}

// observeArchive reads the BackupRepositories that the spec names, and which credentials the one of the archive
// supplies.
func (c *Controller) observeArchive(ctx context.Context, app *platformv1.Application, f *facts) (err error) {
	f.archive, f.logs, err = instance.Places(ctx, livereader.Reader{Cached: c.client, Live: c.live}, c.live, app)
	f.supplied = archive.Supplied(app, archive.Facts{Bundle: f.state.Bundle, Components: f.components, Place: f.archive})
	return err
}

// reportArchive says whether the BackupRepository is there that the instance keeps its archive in, and where in it that
// is. While it is not, an instance that archives there goes on, and the condition is all that changes.
func reportArchive(app *platformv1.Application, f *facts, refused *outcome.Outcome) {
	if app.Spec.Archive == nil {
		conditions.Remove(app, platformv1.ArchiveFoundCondition)
		return
	}
	condition := metav1.Condition{Type: platformv1.ArchiveFoundCondition, Status: metav1.ConditionFalse}
	kept := keptIn(app, f)
	switch lacks := archive.Lacks(app, f.archive); {
	case lacks != nil && kept != nil:
		condition.Reason, condition.Message = lacks.Reason, lacks.Message+
			". Until then the pods archive as they did, in the folder "+kept.Folder
	case lacks != nil:
		condition.Reason, condition.Message = lacks.Reason, lacks.Message
	case refused != nil && refused.Reason() == platformv1.ReasonArchiveRefused:
		condition.Reason, condition.Message = refused.Reason(), refused.Message()
	case kept != nil:
		condition.Status, condition.Reason = metav1.ConditionTrue, platformv1.ReasonArchiveFound
		condition.Message = fmt.Sprintf("the archive is in the folder %s of BackupRepository %q", kept.Folder,
			kept.Repository)
	default:
		condition.Reason, condition.Message = platformv1.ReasonProgressing,
			fmt.Sprintf("BackupRepository %q is there, and the pods are yet to be told of it",
				app.Spec.Archive.RepositoryRef.Name)
	}
	conditions.Set(app, condition)
}

// keptIn is where a component of the instance keeps its archive by now, as far as it is the repository that the spec
// names.
func keptIn(app *platformv1.Application, f *facts) *platformv1.ComponentArchive {
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		place := f.components[name].Spec.Archive
		if place != nil && place.Repository == app.Spec.Archive.RepositoryRef.Name {
			return place
		}
	}
	return nil
}
