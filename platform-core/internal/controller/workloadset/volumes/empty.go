// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
)

// discardEmpty deletes the claims of volumes that a user had added and took out again before there was a volume: one of
// another size or class could not come in their place. A claim that has got its volume meanwhile stays.
func (r *Reconciler) discardEmpty(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) error {
	for _, name := range slices.Sorted(maps.Keys(f.Claims)) {
		claim := f.Claims[name]
		if !facts.Ours(set, claim) || claim.DeletionTimestamp != nil || !accept.TakenOutEmpty(set, claim) {
			continue
		}
		err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// The next reconcile sees what became of it.
		case err != nil:
			return fmt.Errorf("cannot delete claim %q, which has no volume and is of none that the pods have: %w", name, err)
		default:
			r.Events.Normal(set, "VolumesDiscarded",
				"Claim %s is deleted: its volume was taken out of the spec before there was one.", name)
		}
	}
	return nil
}
