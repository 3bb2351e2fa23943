// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// endedField indexes Backups that are completed or that a drill has judged, by the name of their Application.
const endedField = "endedOf"

func endedOf(obj client.Object) []string {
	if b := obj.(*platformv1.Backup); b.Status.Verified != nil || b.Status.CompletionTime != nil {
		return []string{b.Spec.ApplicationRef.Name}
	}
	return nil
}

// observeBackups looks which Backups of the instance were completed and judged last.
func (c *Controller) observeBackups(ctx context.Context, app *platformv1.Application, f *facts) error {
	var list platformv1.BackupList
	err := c.client.List(ctx, &list, client.InNamespace(app.Namespace), client.MatchingFields{endedField: app.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("cannot list the Backups of Application %q: %w", app.Name, err)
	}
	f.judged = lastJudged(app, list.Items)
	f.completed, f.restored = lastCompleted(app, list.Items), lastRestored(app, list.Items)
	return nil
}

// isOf says whether a Backup that ended at this time is one of this instance, and of none of the same name that is
// gone.
func isOf(app *platformv1.Application, b *platformv1.Backup, ended *metav1.Time) bool {
	return b.Spec.ApplicationRef.Name == app.Name && b.DeletionTimestamp.IsZero() && !ended.Before(&app.CreationTimestamp)
}

// lastCompleted is the newest Backup of an instance that is completed; nil for none.
func lastCompleted(app *platformv1.Application, backups []platformv1.Backup) *platformv1.BackupRecord {
	var last *platformv1.BackupRecord
	for i := range backups {
		b := &backups[i]
		at := b.Status.CompletionTime
		if b.Status.Phase != platformv1.BackupCompleted || at == nil || !isOf(app, b, at) {
			continue
		}
		// Of two that were completed in the same second, the name decides: the record must not depend on the order of
		// a list.
		if last == nil || last.CompletionTime.Before(at) || last.CompletionTime.Equal(at) && last.Name < b.Name {
			last = &platformv1.BackupRecord{Name: b.Name, CompletionTime: *at}
		}
	}
	return last
}

// lastRestored is the newest drill that found a Backup of an instance good, as far as the Backup tells of it: a later
// drill of the same Backup replaces what it tells. nil for none.
func lastRestored(app *platformv1.Application, backups []platformv1.Backup) *platformv1.VerifiedRestore {
	var last *platformv1.VerifiedRestore
	for i := range backups {
		b := &backups[i]
		v := b.Status.Verified
		if v == nil || v.Outcome != platformv1.VerificationPassed || !isOf(app, b, &v.Time) {
			continue
		}
		if last == nil || last.Time.Before(&v.Time) || last.Time.Equal(&v.Time) && last.Backup < b.Name {
			last = &platformv1.VerifiedRestore{Backup: b.Name, Operation: v.Operation, Time: v.Time}
		}
	}
	return last
}

// reportBackups names the newest Backup, and the newest drill that succeeded. The latter stays said when its Backup
// is gone, or fails in a later drill.
func reportBackups(app *platformv1.Application, f *facts) {
	app.Status.LastBackup = f.completed
	if before := app.Status.LastVerifiedRestore; f.restored != nil &&
		(before == nil || !f.restored.Time.Before(&before.Time)) {
		app.Status.LastVerifiedRestore = f.restored
	}
}

// lastJudged is the Backup of an instance that a drill judged last, as far as it is there; nil for none. One of an
// instance of this name that is gone tells nothing of this one.
func lastJudged(app *platformv1.Application, backups []platformv1.Backup) *platformv1.Backup {
	var last *platformv1.Backup
	for i := range backups {
		b := &backups[i]
		if b.Status.Verified == nil || !isOf(app, b, &b.Status.Verified.Time) {
			continue
		}
		if last == nil || last.Status.Verified.Time.Before(&b.Status.Verified.Time) {
			last = b
		}
	}
	return last
}

// reportVerified says what the last drill came to.
func reportVerified(app *platformv1.Application, f *facts) {
	if f.judged == nil {
		conditions.Remove(app, platformv1.BackupsVerifiedCondition)
		return
	}
	v := f.judged.Status.Verified
	at := v.Time.UTC().Format(time.RFC3339)
	condition := metav1.Condition{Type: platformv1.BackupsVerifiedCondition, Status: metav1.ConditionFalse}
	switch v.Outcome {
	case platformv1.VerificationPassed:
		condition.Status, condition.Reason = metav1.ConditionTrue, platformv1.ReasonVerified
		condition.Message = fmt.Sprintf("Backup %q was restored and found good at %s", f.judged.Name, at)
	case platformv1.VerificationFailed:
		condition.Reason = platformv1.ReasonVerificationFailed
		condition.Message = fmt.Sprintf("Backup %q is not good, as drill %q found at %s: %s", f.judged.Name, v.Operation, at,
			v.Message)
	default:
		condition.Reason = platformv1.ReasonDrillUnfinished
		condition.Message = fmt.Sprintf("it is not known whether Backup %q is good, since drill %q came to no end at %s: %s",
			f.judged.Name, v.Operation, at, v.Message)
	}
	conditions.Set(app, condition)
}

// tellVerified publishes a drill that did not find what it should have, once for each.
func (c *Controller) tellVerified(app *platformv1.Application, before *metav1.Condition) {
	now := conditions.Get(app, platformv1.BackupsVerifiedCondition)
	if now != nil && now.Status == metav1.ConditionFalse && (before == nil || before.Message != now.Message) {
		c.events.Warning(app, now.Reason, "%s.", now.Message)
	}
}
