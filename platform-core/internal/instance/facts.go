// SPDX-License-Identifier: Apache-2.0

// Package instance reads what package accept asks about an Application. The webhook and the controller of Operations
// judge by the same.
package instance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Facts reads what there is of an Application, but for the state of its plugin. Claims of users, which no cache has,
// are looked for live, and not at all where live is nil.
func Facts(ctx context.Context, reader, live client.Reader, app *platformv1.Application, settings render.Settings) (
	accept.Facts, error) {
	f := accept.Facts{
		Components: map[string]*platformv1.Component{},
		Claims:     map[string]*corev1.PersistentVolumeClaim{}, Generations: map[string]string{}, Settings: settings,
	}
	var classes storagev1.StorageClassList
	if err := reader.List(ctx, &classes); err != nil {
		return f, err
	}
	f.Classes = accept.Classes(classes.Items)
	ofItsName := []client.ListOption{client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}}
	var components platformv1.ComponentList
	if err := reader.List(ctx, &components, ofItsName...); err != nil {
		return f, err
	}
	for i := range components.Items {
		if metav1.IsControlledBy(&components.Items[i], app) {
			f.Components[components.Items[i].Spec.Component] = &components.Items[i]
		}
	}
	var claims corev1.PersistentVolumeClaimList
	if err := reader.List(ctx, &claims, ofItsName...); err != nil {
		return f, err
	}
	for i := range claims.Items {
		f.Claims[claims.Items[i].Name] = &claims.Items[i]
	}
	var sets platformv1.WorkloadSetList
	if err := reader.List(ctx, &sets, ofItsName...); err != nil {
		return f, err
	}
	for i := range sets.Items {
		if set := &sets.Items[i]; set.Labels[platformv1.ApplicationUIDLabel] == string(app.UID) {
			f.Generations[set.Name] = set.Spec.Generation()
		}
	}
	var err error
	if f.Archive, f.Logs, err = Places(ctx, reader, live, app); err != nil {
		return f, err
	}
	f.Backup, err = Source(ctx, reader, app)
	return f, err
}

// getter reads one object.
type getter interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error
}

// Source reads the Backup that an Application is to begin with; nil when there is none of the name, or its data is
// there already.
func Source(ctx context.Context, reader getter, app *platformv1.Application) (*platformv1.Backup, error) {
	from := app.Spec.RestoreFrom
	if from == nil || app.Status.RestoredFrom != nil {
		return nil, nil
	}
	backup := &platformv1.Backup{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: from.Backup}, backup)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return backup, err
}
