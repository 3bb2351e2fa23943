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

// Claim is ApplyWithout on an object as it was read, which writes although that is as wanted, so that all of its fields
// are this owner's. It is Unchanged when they were already. It is refused with a conflict when anything but the status
// of the object has changed since live was read.
func (a *Applier) Claim(ctx context.Context, live, obj client.Object, without ...string) (Change, error) {
	want, err := a.desired(obj, without...)
	if err != nil {
		return Unchanged, fmt.Errorf("cannot apply %s: %w", describe(obj), err)
	}
	if err := checkOwner(a.client.Scheme(), want.object, live); err != nil || live.GetDeletionTimestamp() != nil {
		return Unchanged, err
	}
	return a.forceOn(ctx, live, want)
}

// ApplyTo is ApplyWithout on an object as it was read. It is refused with a conflict when somebody else has written
// since, to anything but the status, what obj says otherwise: who reads the object again sees what that is. What he
// takes out in that time, of which the server keeps no trace, is put back.
func (a *Applier) ApplyTo(ctx context.Context, live, obj client.Object, without ...string) (Change, error) {
	a.made.Remove(nameFor(obj))
	want, err := a.wanted(live, obj, without...)
	if err != nil || want == nil {
		return Unchanged, err
	}
	return a.bring(ctx, live, want, a.yielding)
}

// yielding writes what is wanted where nobody else owns what it changes, or did already when the object was read. So it
// asks for no version of the object, which its status changes, too.
func (a *Applier) yielding(ctx context.Context, live client.Object, want *desired) error {
	err := a.write(ctx, live, want, want.patch())
	if !apierrors.IsConflict(err) {
		return err
	}
	again, readErr := a.sameAs(ctx, live)
	if readErr != nil || again == nil {
		return err
	}
	_, err = a.forceOn(ctx, again, want)
	return err
}

// forceOn writes what is wanted on an object as it was read, whatever that is like, and again where only its status has
// changed since.
func (a *Applier) forceOn(ctx context.Context, live client.Object, want *desired) (Change, error) {
	for tries := 1; ; tries++ {
		patch := want.patch()
		patch.SetResourceVersion(live.GetResourceVersion())
		err := a.write(ctx, live, want, patch, client.ForceOwnership)
		if err == nil && patch.GetResourceVersion() == live.GetResourceVersion() {
			return Unchanged, nil
		}
		if err == nil {
			return Updated, nil
		}
		if !apierrors.IsConflict(err) || tries == claimTries {
			return Unchanged, err
		}
		again, readErr := a.sameAs(ctx, live)
		if readErr != nil || again == nil {
			return Unchanged, err
		}
		live = again
	}
}

// sameAs reads an object past the cache; nil when anything but its status has changed since live was read.
func (a *Applier) sameAs(ctx context.Context, live client.Object) (client.Object, error) {
	again, err := read(ctx, a.live, live)
	if err != nil || again == nil || again.GetUID() != live.GetUID() || stampOf(again) != stampOf(live) {
		return nil, err
	}
	return again, nil
}

// IsAppliedAs says whether a live object was last applied as obj, whatever others made of it since.
func (a *Applier) IsAppliedAs(live, obj client.Object, without ...string) (bool, error) {
	want, err := a.desired(obj, without...)
	if err != nil {
		return false, fmt.Errorf("cannot compare %s: %w", describe(obj), err)
	}
	return want.isDigestOf(live), nil
}

// Drifted says whether a live object was applied as obj and is not so any more: somebody else changed it. One that is
// yet to be applied as obj, and what the server never kept of it, are no drift.
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
