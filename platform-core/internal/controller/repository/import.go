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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
)

const (
	// importedTimeout is spec.timeout of an imported Backup, which is whole when it is made.
	importedTimeout = time.Hour
	// mostFailures is how many folders are told of which no Backup could be made.
	mostFailures = 50
	// longestVersion is how many characters the version of a middleware has at most.
	longestVersion = 63
)

// recallName is that of the Job that reads the page after a key, another one for each operator.
func recallName(r *platformv1.BackupRepository, domain, after string) string {
	sum := sha256.Sum256([]byte(string(r.UID) + "/" + domain + "/" + after))
	return "recall-" + hex.EncodeToString(sum[:12])
}

// afterOf is the key up to which an import has looked.
func afterOf(state *platformv1.RepositoryState) string {
	if state == nil || state.Inventory == nil || state.Inventory.Import == nil {
		return ""
	}
	return state.Inventory.Import.After
}

// recall decides on the import of what the inventory of this operator has found no Backup of: page by page, after an
// inventory and before the next one.
func recall(d decision, r *platformv1.BackupRepository, f facts) decision {
	inventory, wanted := d.state.Inventory, r.Spec.Import != nil
	if d.verb != "" || d.state.Ready != metav1.ConditionTrue || inventory == nil || inventory.Time == nil {
		return d
	}
	had := inventory.Import
	over := !wanted || had != nil && had.Time != nil
	switch {
	case f.recall != nil && over:
		d.verb = removeRecall
	case !wanted && had != nil:
		d.state.Inventory = inventory.DeepCopy()
		d.state.Inventory.Import = nil
	case over:
	case f.recall == nil && had != nil && had.Tried != nil && f.now.Before(had.Tried.Add(retry)):
		d.after = sooner(d.after, had.Tried.Add(retry).Sub(f.now))
	case f.recall == nil:
		d.verb = makeRecall
	case f.recall.Phase != platformv1.OperationRunning:
		d.verb = takeRecall
	default:
		d.after = sooner(d.after, f.recall.Wake)
	}
	return d
}

// sooner is the earlier of two times to look again; 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// makeRecall makes the Job that reads the next page, unless that is not the next one any more. What there are Backups
// of is known as for an inventory.
func (c *Controller) makeRecall(ctx context.Context, r *platformv1.BackupRepository) error {
	if is, err := c.isLatest(ctx, r); err != nil || !is {
		return err
	}
	backups, err := c.backups(ctx, r)
	if err != nil || len(backups) > mover.MaxCatalogue {
		// The inventory says that there are too many to be compared.
		return err
	}
	catalogue := catalogueOf(r.Namespace, backups)
	catalogue.After = afterOf(stateOf(r, c.Domain))
	return c.make(ctx, r, recallName(r, c.Domain, catalogue.After), listTimeout,
		mover.Plan{Verb: mover.VerbRecall, Catalogue: catalogue})
}

// takeRecall makes Backups of a page that was read, removes its Job, and returns the inventory that says so. It can be
// repeated: each Backup is made once, and a Job that is gone has the page read again.
func (c *Controller) takeRecall(ctx context.Context, r *platformv1.BackupRepository,
	inventory *platformv1.RepositoryInventory, f facts) (*platformv1.RepositoryInventory, error) {
	after := inventory.DeepCopy()
	if after.Import == nil {
		after.Import = &platformv1.RepositoryImport{}
	}
	had := *after.Import
	page, problem := pageOf(f.recall)
	if problem != "" {
		after.Import.Tried, after.Import.Message = new(metav1.NewTime(f.now)), problem
		return after, c.remove(ctx, r, recallName(r, c.Domain, had.After), f.recall)
	}
	backups, err := c.backups(ctx, r)
	if err != nil {
		return nil, err
	}
	// What was backed up while the page was read has a Backup by now: with another one of the same folder, the data of
	// both would go with the first that is deleted.
	known := keysOf(slices.DeleteFunc(backups, func(b platformv1.Backup) bool { return b.Spec.Imported != nil }))
	page.Records = slices.DeleteFunc(page.Records, func(record mover.Record) bool { return known[record.Key] })
	page.Failures = slices.DeleteFunc(page.Failures, func(failure mover.Failure) bool { return known[failure.Key] })
	for i := range page.Records {
		failure, err := c.remake(ctx, r, &page.Records[i])
		if err != nil {
			return nil, err
		}
		if failure != "" {
			page.Failures = append(page.Failures,
				mover.Failure{Key: page.Records[i].Key, Reason: platformv1.ReasonNotImported, Message: failure})
		}
	}
	if err := c.remove(ctx, r, recallName(r, c.Domain, had.After), f.recall); err != nil {
		return nil, err
	}
	if backups, err = c.backups(ctx, r); err != nil {
		return nil, err
	}
	taken(after, page, backups)
	if page.Left == 0 {
		after.Import.Time = new(metav1.NewTime(f.now))
	}
	return after, nil
}

// taken adds a page to an inventory, of which some Backups have been made since.
func taken(inventory *platformv1.RepositoryInventory, page *mover.Recall, backups []platformv1.Backup) {
	i := inventory.Import
	i.Tried, i.Message, i.Imported, i.After = nil, "", imported(backups), cmp.Or(page.Last, i.After)
	known := keysOf(backups)
	orphans := len(inventory.OrphanKeys)
	inventory.OrphanKeys = slices.DeleteFunc(inventory.OrphanKeys, func(key string) bool { return known[key] })
	made := int32(0)
	for _, record := range page.Records {
		if known[record.Key] {
			made++
		}
	}
	inventory.Orphans = max(int32(len(inventory.OrphanKeys)),
		inventory.Orphans-max(made, int32(orphans-len(inventory.OrphanKeys))))
	for _, failure := range page.Failures {
		i.Failed++
		if len(i.Failures) < mostFailures {
			i.Failures = append(i.Failures, platformv1.ImportFailure{Key: failure.Key, Reason: failure.Reason,
				Message: failure.Message})
		}
	}
}

// keysOf are the folders that some Backups have.
func keysOf(backups []platformv1.Backup) map[string]bool {
	keys := map[string]bool{}
	for i := range backups {
		keys[keyOf(&backups[i])] = true
	}
	return keys
}

// imported is how many of some Backups were.
func imported(backups []platformv1.Backup) (count int32) {
	for i := range backups {
		if backups[i].Spec.Imported != nil {
			count++
		}
	}
	return count
}

// pageOf is what a Job has read, or why there is nothing.
func pageOf(job *jobstate.State) (page *mover.Recall, problem string) {
	var said mover.Result
	if err := json.Unmarshal([]byte(job.Said), &said); err != nil || said.Reason == "" &&
		job.Phase != platformv1.OperationSucceeded {
		return nil, "the mover that read what is kept ended without a result: " + job.LastWord(longestMessage)
	}
	if said.Reason != "" {
		return nil, cmp.Or(jobstate.Tail(said.Message, longestMessage), said.Reason)
	}
	page, err := mover.Unpack(said.Recall)
	if err != nil {
		return nil, err.Error()
	}
	return page, ""
}

// remake makes the Backup of what is kept, unless it is there already. A failure is why there can be none.
func (c *Controller) remake(ctx context.Context, r *platformv1.BackupRepository, record *mover.Record) (failure string,
	err error) {
	if record.Origin.Domain == "" {
		record.Origin.Domain = c.servedBy(record)
	}
	backup, failure := remade(r, record)
	if failure != "" {
		return failure, nil
	}
	err = c.client.Create(ctx, backup, client.FieldOwner(owner))
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Sprintf("its Backup cannot be made: %v", err), nil
	case !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("cannot make Backup %q: %w", backup.Name, err)
	}
	there := &platformv1.Backup{}
	switch err := c.live.Get(ctx, client.ObjectKeyFromObject(backup), there); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cannot read Backup %q: %w", backup.Name, err)
	case there.Spec.RepositoryRef.Name != r.Name || keyOf(there) != record.Key:
		return fmt.Sprintf("there is another Backup %q, of BackupRepository %q: delete that first, if it is not wanted",
			there.Name, there.Spec.RepositoryRef.Name), nil
	}
	return "", nil
}

// servedBy is the domain of a backup that an operator made which did not note it: the own one where that has the
// plugin, else none.
func (c *Controller) servedBy(record *mover.Record) string {
	var plugin platformv1.PluginReference
	if err := json.Unmarshal(record.Origin.Plugin, &plugin); err != nil {
		return ""
	}
	if _, known := c.Index.Get(plugin.Name, plugin.Version); !known {
		return ""
	}
	return c.Domain
}

// remade is the Backup of what is kept in a repository; failure says why there can be none.
func remade(r *platformv1.BackupRepository, record *mover.Record) (backup *platformv1.Backup, failure string) {
	origin := &record.Origin
	imported := &platformv1.ImportedBackup{Key: record.Key, Digest: record.Digest, Size: record.Size,
		RawSize: record.RawSize, Facts: record.Facts, Version: origin.Version,
		StartTime: metav1.NewTime(record.StartTime), CompletionTime: metav1.NewTime(wholeBy(record.EndTime))}
	if failure = decodeOrigin(origin, imported); failure != "" {
		return nil, failure
	}
	for i := range imported.Sources {
		imported.Sources[i].RawSize = record.Streams[imported.Sources[i].Set]
	}
	app := origin.Application
	switch {
	case app.Namespace != r.Namespace || !strings.HasPrefix(record.Key, app.Namespace+"/"+app.Name+"/"):
		return nil, fmt.Sprintf("its metadata say that it is of Application %q in namespace %q, and its folder says "+
			"something else", app.Name, app.Namespace)
	case origin.Domain == "":
		return nil, fmt.Sprintf("its metadata do not say which operator made it, and this one has no plugin %q version %q",
			imported.Plugin.Name, imported.Plugin.Version)
	case len(record.Streams) > 0 && len(record.Streams) != len(imported.Sources):
		return nil, fmt.Sprintf("it has the data of %d sets, and its metadata name %d", len(record.Streams),
			len(imported.Sources))
	}
	backup = &platformv1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: platformv1.ImportedBackupNameFor(record.Key),
			Finalizers: []string{platformv1.BackupFinalizer},
			Labels: map[string]string{platformv1.DomainLabel: origin.Domain, platformv1.ApplicationLabel: app.Name,
				platformv1.ManagedByLabel: platformv1.ManagedBy},
		},
		Spec: platformv1.BackupSpec{
			ApplicationRef: platformv1.ApplicationReference{Name: app.Name},
			RepositoryRef:  platformv1.RepositoryReference{Name: r.Name}, Method: origin.Method,
			DeletionPolicy: cmp.Or(r.Spec.Import.DeletionPolicy, platformv1.BackupRetain),
			Retention:      r.Spec.Import.Retention.DeepCopy(),
			Timeout:        metav1.Duration{Duration: importedTimeout}, Imported: imported,
		},
	}
	if record.Files {
		backup.Spec.Type = platformv1.BackupFiles
	}
	if compression := platformv1.BackupCompression(record.Compression); compression == platformv1.CompressionGzip {
		backup.Spec.Compression = compression
	}
	if origin.Schedule != "" {
		backup.Labels[platformv1.ScheduleLabel] = origin.Schedule
	}
	return backup, unsuited(backup)
}

// decodeOrigin reads what the operator of before wrote into the metadata.
func decodeOrigin(origin *mover.Origin, into *platformv1.ImportedBackup) (failure string) {
	for _, part := range []struct {
		name string
		text json.RawMessage
		into any
	}{{"plugin", origin.Plugin, &into.Plugin}, {"source", origin.Source, &into.Source},
		{"sources", origin.Sources, &into.Sources}} {
		if len(part.text) == 0 {
			continue
		}
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return fmt.Sprintf("the %s of its metadata cannot be read: %v", part.name, err)
		}
	}
	if into.Plugin.Name == "" || origin.Method == "" || origin.Version == "" || len(origin.Version) > longestVersion {
		return "its metadata do not say by which plugin and method, and of which version, it was made"
	}
	return ""
}

// unsuited says why labels and name of a Backup are none.
func unsuited(b *platformv1.Backup) string {
	if wrong := validation.IsDNS1123Subdomain(b.Name); len(wrong) > 0 {
		return fmt.Sprintf("%q cannot be the name of a Backup: %s", b.Name, strings.Join(wrong, "; "))
	}
	for name, value := range b.Labels {
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			return fmt.Sprintf("its metadata have %q, which cannot be the label %s: %s", value, name, strings.Join(wrong, "; "))
		}
	}
	return ""
}

// wholeBy is the first whole second at which a backup was whole: times of objects have no parts of a second, and
// nothing may be taken for reachable that is not.
func wholeBy(end time.Time) time.Time {
	if whole := end.Truncate(time.Second); whole.Before(end) {
		return whole.Add(time.Second)
	}
	return end
}
