// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claimTries is how often a claim is made of an object whose status others write meanwhile.
const claimTries = 5

// Claim is ApplyWithout on an object as it was read, which writes although that is as wanted, so that all of its fields are this owner's. It is
// Unchanged when they were already. It is refused with a conflict when anything but the status of the object has changed since live was read.
func (a *Applier) Claim(ctx context.Context, live, obj client.Object, without ...string) (Change, error) {
	want, err := a.desired(obj, without...)
	if err != nil {
		return Unchanged, fmt.Errorf("cannot apply %s: %w", describe(obj), err)
	}
	if err := checkOwner(a.client.Scheme(), want.object, live); err != nil || live.GetDeletionTimestamp() != nil {
		return Unchanged, err
	}
	for tries := 1; ; tries++ {
		patch := want.patch()
		patch.SetResourceVersion(live.GetResourceVersion())
		err := a.force(ctx, live, want, patch)
		if err == nil && patch.GetResourceVersion() == live.GetResourceVersion() {
			return Unchanged, nil
		}
		if err == nil {
			return Updated, nil
		}
		if !apierrors.IsConflict(err) || tries == claimTries {
			return Unchanged, err
		}
		again, readErr := read(ctx, a.live, obj)
		if readErr != nil || again == nil || again.GetUID() != live.GetUID() || stampOf(again) != stampOf(live) {
			return Unchanged, err
		}
		live = again
	}
}

// IsAppliedAs says whether a live object was last applied as obj, whatever others made of it since.
func (a *Applier) IsAppliedAs(live, obj client.Object, without ...string) (bool, error) {
	want, err := a.desired(obj, without...)
	if err != nil {
		return false, fmt.Errorf("cannot compare %s: %w", describe(obj), err)
	}
	return want.isDigestOf(live), nil
}

// Drifted says whether a live object was applied as obj and is not so any more: somebody else changed it. One that is yet to be
// applied as obj, and what the server never kept of it, are no drift.
func (a *Applier) Drifted(live, obj client.Object, without ...string) (bool, error) {
	given, err := fingerprintOf(obj, without...)
	if err != nil {
		return false, fmt.Errorf("cannot compare %s: %w", describe(obj), err)
	}
	if last, found := a.checked.Get(live.GetUID()); found && last == (check{given: given, stamp: stampOf(live)}) {
		return false, nil
	}
	want, err := a.desired(obj, without...)
	if err != nil {
		return false, fmt.Errorf("cannot compare %s: %w", describe(obj), err)
	}
	if !want.isDigestOf(live) {
		return false, nil
	}
	same, err := a.shows(live, want)
	return !same, err
}
