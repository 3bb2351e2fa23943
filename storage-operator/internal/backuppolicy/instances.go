// SPDX-License-Identifier: Apache-2.0

package backuppolicy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/objectcache"
)

// newCache returns a cache of the Applications and scheduled Backups of all domains, with no more of them than is read
// here. That of the manager has those of its own domain alone.
func newCache(mgr ctrl.Manager, namespaces map[string]cache.Config) (cache.Cache, error) {
	scheduled, err := labels.NewRequirement(platformv1.ScheduleLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	instances, err := objectcache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultNamespaces: namespaces,
		ByObject: map[client.Object]cache.ByObject{
			&platformv1.Application{}: {Transform: trimApplication},
			&platformv1.Backup{}:      {Transform: trimBackup, Label: labels.NewSelector().Add(*scheduled)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the cache of instances: %w", err)
	}
	return instances, nil
}

// trimmed is what is kept of the metadata of an object.
func trimmed(o metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion,
		CreationTimestamp: o.CreationTimestamp,
		DeletionTimestamp: o.DeletionTimestamp, Labels: o.Labels, OwnerReferences: o.OwnerReferences,
	}
}

func trimApplication(obj any) (any, error) {
	app, is := obj.(*platformv1.Application)
	if !is {
		return obj, nil
	}
	kept := &platformv1.Application{TypeMeta: app.TypeMeta, ObjectMeta: trimmed(app.ObjectMeta)}
	for key, value := range app.Annotations {
		if strings.HasPrefix(key, annotationPrefix) || strings.HasPrefix(key, drillPrefix) {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	kept.Spec.Schedules, kept.Spec.Suspend = app.Spec.Schedules, app.Spec.Suspend
	kept.Status.Schedules = app.Status.Schedules
	return kept, nil
}

func trimBackup(obj any) (any, error) {
	b, is := obj.(*platformv1.Backup)
	if !is {
		return obj, nil
	}
	kept := &platformv1.Backup{TypeMeta: b.TypeMeta, ObjectMeta: trimmed(b.ObjectMeta)}
	kept.Spec.ApplicationRef = b.Spec.ApplicationRef
	kept.Status.Phase, kept.Status.CompletionTime = b.Status.Phase, b.Status.CompletionTime
	if b.Ended() {
		kept.Status.Message = b.Status.Message
	}
	kept.Status.Verified = b.Status.Verified
	if missing(b) {
		kept.Status.Conditions = []metav1.Condition{
			{Type: platformv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: platformv1.ReasonBackupDataMissing}}
	}
	return kept, nil
}

// missing says whether nothing of a Backup that was whole is in its repository any more, as far as is known.
func missing(b *platformv1.Backup) bool {
	ready := meta.FindStatusCondition(b.Status.Conditions, platformv1.ReadyCondition)
	return b.Status.Phase == platformv1.BackupCompleted && ready != nil &&
		ready.Reason == platformv1.ReasonBackupDataMissing
}

// applicationChanged passes what makes a difference to policies: most changes of an Application make none.
var applicationChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return differ(e.ObjectOld, e.ObjectNew) }}

// backupChanged is the same for Backups.
var backupChanged = applicationChanged

// differ says whether two objects as they are kept are not the same, versions aside.
func differ(before, after client.Object) bool {
	if before.GetResourceVersion() == after.GetResourceVersion() {
		return false
	}
	same := after.DeepCopyObject().(client.Object)
	same.SetResourceVersion(before.GetResourceVersion())
	return !equality.Semantic.DeepEqual(before, same)
}
