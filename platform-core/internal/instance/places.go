// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/archive"
)

// Places reads the BackupRepositories that an Application names: the one that it keeps its archive in, and the one that
// has the logs which lead to the point in time that it begins at, as long as its data is not there. Where live is nil
// nobody looks for claims.
func Places(ctx context.Context, reader getter, live client.Reader, app *platformv1.Application) (kept,
	logs archive.Place, err error) {
	if a := app.Spec.Archive; a != nil {
		if kept, err = place(ctx, reader, live, app.Namespace, a.RepositoryRef.Name); err != nil {
			return kept, logs, err
		}
	}
	if from := app.Spec.RestoreFrom; from != nil && from.Target != nil && from.Target.RepositoryRef != nil &&
		app.Status.RestoredFrom == nil {
		logs, err = place(ctx, reader, live, app.Namespace, from.Target.RepositoryRef.Name)
	}
	return kept, logs, err
}

func place(ctx context.Context, reader getter, live client.Reader, namespace, name string) (archive.Place, error) {
	p, r := archive.Place{Unseen: live == nil}, &platformv1.BackupRepository{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)
	if apierrors.IsNotFound(err) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("cannot read BackupRepository %q: %w", name, err)
	}
	p.Repository = r
	if r.ClaimName() == "" || live == nil {
		return p, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.ClaimName()}, claim)
	switch {
	case err == nil:
		p.Claim = claim
	case !apierrors.IsNotFound(err):
		return p, fmt.Errorf("cannot read PersistentVolumeClaim %q of BackupRepository %q: %w", r.ClaimName(), name, err)
	}
	return p, nil
}
