// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/secretvalue"
)

// lacksForTarget says which Secret or volume of a target is not there, so that no mover waits for one that nobody
// makes; empty where none is missing.
func (r *Reconciler) lacksForTarget(ctx context.Context, set *platformv1.WorkloadSet) (string, error) {
	target := set.Spec.Restore.From.Target
	if target == nil {
		return "", nil
	}
	if name := set.Spec.Restore.Logs; name != "" {
		claim := &corev1.PersistentVolumeClaim{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), err == nil && !claim.DeletionTimestamp.IsZero():
			return fmt.Sprintf("restoreFrom.target names BackupRepository %q for the logs, and its PersistentVolumeClaim %q "+
				"is not there: create it in namespace %q", set.Spec.Restore.From.Archive.Repository, name, set.Namespace), nil
		case err != nil:
			return "", fmt.Errorf("cannot read PersistentVolumeClaim %q of a target: %w", name, err)
		}
	}
	for _, credential := range target.Credentials {
		from, secret := credential.PasswordFrom, &corev1.Secret{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: from.Name}, secret)
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("restoreFrom.target names Secret %q for the credential %q, which is not there: create it in "+
				"namespace %q", from.Name, credential.Name, set.Namespace), nil
		}
		if err != nil {
			return "", fmt.Errorf("cannot read Secret %q of a target: %w", from.Name, err)
		}
		key := cmp.Or(from.Key, plugin.SecretKeyPassword)
		if len(secret.Data[key]) == 0 {
			return fmt.Sprintf("Secret %q of restoreFrom.target has no key %q: add it", from.Name, key), nil
		}
		if why := secretvalue.Problem(from.Name, key, secret.Data[key]); why != "" {
			return fmt.Sprintf("restoreFrom.target, credential %q: %s", credential.Name, why), nil
		}
	}
	return "", nil
}
