// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
)

const (
	// listTimeout is how long an inventory may take.
	listTimeout = time.Hour
	// defaultInterval is how often there is one where the spec says nothing.
	defaultInterval = 24 * time.Hour
	// listRetry is after how long one that failed is tried again, at most.
	listRetry = 30 * time.Minute
	// longestSleep is when the clock is looked at again at the latest: a timer does not follow a clock that is set.
	longestSleep = time.Hour
	// mostOrphans is how many keys of backups are told that no object speaks of.
	mostOrphans = 50
)

// listingName is that of the Job that lists what is kept, another one for each operator.
func listingName(r *platformv1.BackupRepository, domain string) string {
	sum := sha256.Sum256([]byte(string(r.UID) + "/" + domain))
	return "list-" + hex.EncodeToString(sum[:12])
}

// observeInventory reads how the inventory stands.
func (c *Controller) observeInventory(ctx context.Context, r *platformv1.BackupRepository, f *facts) error {
	f.latest, f.interval = r.Inventory(), defaultInterval
	if r.Spec.InventoryInterval != nil {
		f.interval = r.Spec.InventoryInterval.Duration
	}
	var err error
	if f.recall, err = c.job(ctx, r, recallName(r, c.Domain, afterOf(stateOf(r, c.Domain)))); err != nil {
		return err
	}
	if f.listing, err = c.job(ctx, r, listingName(r, c.Domain)); err != nil || f.listing == nil ||
		f.listing.Phase == platformv1.OperationRunning {
		return err
	}
	f.backups, err = c.backups(ctx, r)
	return err
}

// backups are those in a repository, of all domains, as they are now.
func (c *Controller) backups(ctx context.Context, r *platformv1.BackupRepository) ([]platformv1.Backup, error) {
	var list platformv1.BackupList
	if err := c.live.List(ctx, &list, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("cannot list the Backups of BackupRepository %q: %w", client.ObjectKeyFromObject(r), err)
	}
	return slices.DeleteFunc(list.Items, func(b platformv1.Backup) bool { return b.Spec.RepositoryRef.Name != r.Name }),
		nil
}

// triedAt is when an inventory was tried; nil for none.
func triedAt(i *platformv1.RepositoryInventory) *metav1.Time {
	if i == nil {
		return nil
	}
	return &i.Tried
}

// makeListing makes the Job that lists what is kept, unless that was decided on what is not so any more: then a change
// wakes us.
func (c *Controller) makeListing(ctx context.Context, r *platformv1.BackupRepository) error {
	if is, err := c.isLatest(ctx, r); err != nil || !is {
		return err
	}
	backups, err := c.backups(ctx, r)
	if err != nil {
		return err
	}
	catalogue := catalogueOf(r.Namespace, backups)
	if len(backups) > mover.MaxCatalogue {
		// What is there can be counted then, and not compared.
		catalogue.Whole, catalogue.Others = nil, nil
	}
	return c.make(ctx, r, listingName(r, c.Domain), listTimeout, mover.Plan{Verb: mover.VerbList, Catalogue: catalogue})
}

// isLatest says whether a repository is as it was read.
func (c *Controller) isLatest(ctx context.Context, r *platformv1.BackupRepository) (bool, error) {
	fresh := &platformv1.BackupRepository{}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(r), fresh)
	return err == nil && fresh.ResourceVersion == r.ResourceVersion, client.IgnoreNotFound(err)
}

// catalogueOf some Backups: those that are whole have to be there. Of the others nobody can tell.
func catalogueOf(namespace string, backups []platformv1.Backup) *mover.Catalogue {
	catalogue := &mover.Catalogue{Folder: namespace}
	for i := range backups {
		digest := mover.KeyDigest(keyOf(&backups[i]))
		if stays(&backups[i]) {
			catalogue.Whole = append(catalogue.Whole, digest)
		} else {
			catalogue.Others = append(catalogue.Others, digest)
		}
	}
	return catalogue
}

func keyOf(b *platformv1.Backup) string { return cmp.Or(b.Status.Key, platformv1.BackupKeyFor(b)) }

// stays says whether what is kept of a Backup has to be there.
func stays(b *platformv1.Backup) bool {
	return b.Status.Phase == platformv1.BackupCompleted && b.DeletionTimestamp.IsZero()
}

// look decides on the inventory of a repository that is ready and whose check has nothing left to do.
func look(d decision, before *platformv1.RepositoryState, f facts) decision {
	var mine *platformv1.RepositoryInventory
	if before != nil && before.Inventory != nil && (f.latest == nil || !before.Inventory.Tried.Before(&f.latest.Tried)) {
		mine = before.Inventory
	}
	d.state.Inventory = mine
	if d.verb != "" || d.state.Ready != metav1.ConditionTrue {
		return d
	}
	switch {
	case f.listing == nil:
		wait, again := untilDue(f)
		switch {
		case again && wait <= 0 && f.recall == nil:
			d.verb = makeListing
		case again && wait > 0:
			d.after = min(wait, longestSleep)
		}
	case f.listing.Phase == platformv1.OperationRunning:
		d.after = sooner(d.after, f.listing.Wake)
	case recorded(f.listing, triedAt(f.latest)):
		// It is on record, or another operator took one since.
		d.verb = removeListing
	default:
		d.state.Inventory, d.verb = compared(mine, f), removeListing
	}
	return d
}

// untilDue is how long it is until the next inventory, if there is to be one.
func untilDue(f facts) (wait time.Duration, again bool) {
	if f.latest == nil {
		return 0, true
	}
	pause := f.interval
	if f.latest.Message != "" {
		pause = min(cmp.Or(pause, listRetry), listRetry)
	}
	return f.latest.Tried.Add(pause).Sub(f.now), pause > 0
}

// compared is the inventory that a Job which has ended comes to. What has come or gone since the Job was made is no
// finding.
func compared(before *platformv1.RepositoryInventory, f facts) *platformv1.RepositoryInventory {
	now := metav1.NewTime(f.now)
	problem := ""
	var said mover.Result
	if err := json.Unmarshal([]byte(f.listing.Said), &said); err != nil || said.Reason == "" &&
		f.listing.Phase != platformv1.OperationSucceeded {
		problem = "the mover that listed what is kept ended without a result: " + f.listing.LastWord(longestMessage)
	} else if said.Reason != "" {
		problem = cmp.Or(jobstate.Tail(said.Message, longestMessage), said.Reason)
	}
	if len(f.backups) > mover.MaxCatalogue {
		problem = fmt.Sprintf("there are %d Backups, and up to %d can be compared with what is kept: delete some",
			len(f.backups), mover.MaxCatalogue)
	}
	if problem != "" {
		failed := &platformv1.RepositoryInventory{}
		if before != nil {
			failed = before.DeepCopy()
		}
		failed.Tried, failed.Message = now, problem
		return failed
	}
	found := &platformv1.RepositoryInventory{Tried: now, Time: &now, Kept: int32(said.Count), KeptBytes: said.KeptBytes,
		Leftovers: int32(said.Unfinished)}
	found.OrphanKeys, found.Orphans = orphans(said, f.backups)
	found.MissingBackups, found.Missing = missing(said, f.backups)
	if before != nil && before.Import != nil && before.Import.Time != nil && found.Orphans == 0 && found.Leftovers == 0 {
		// There is nothing to be read again.
		found.Import = &platformv1.RepositoryImport{Time: before.Import.Time, After: before.Import.After,
			Imported: imported(f.backups)}
	}
	return found
}

// orphans are the first backups of which no object speaks, and how many there are.
func orphans(said mover.Result, backups []platformv1.Backup) (keys []string, count int32) {
	known := map[string]struct{}{}
	for i := range backups {
		known[keyOf(&backups[i])] = struct{}{}
	}
	count = int32(said.Unknown)
	for _, key := range said.Backups {
		if _, is := known[key]; is {
			count--
			continue
		}
		keys = append(keys, key)
	}
	return keys[:min(len(keys), mostOrphans)], count
}

// missing names the first Backups that are whole and of which there is nothing, and says how many there are.
func missing(said mover.Result, backups []platformv1.Backup) (names []string, count int32) {
	whole := map[string]string{}
	for i := range backups {
		if stays(&backups[i]) {
			whole[mover.KeyDigest(keyOf(&backups[i]))] = backups[i].Name
		}
	}
	count = int32(said.Lost)
	for _, digest := range said.Missing {
		name, is := whole[digest]
		if !is {
			count--
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, count
}
