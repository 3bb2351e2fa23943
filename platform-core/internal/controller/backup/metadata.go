// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// metadata is kept beside the data: what it is a backup of, and how that was declared. It has no secrets: specs name
// them. What the object of the backup is made of again is a mover's Origin.
type metadata struct {
	Backup      string                      `json:"backup"`
	Domain      string                      `json:"domain"`
	Schedule    string                      `json:"schedule,omitempty"`
	Method      string                      `json:"method"`
	Plugin      *platformv1.PluginReference `json:"plugin"`
	Version     string                      `json:"version"`
	Source      *platformv1.BackupSource    `json:"source,omitempty"`
	Sources     []platformv1.BackupSource   `json:"sources,omitempty"`
	StartTime   *metav1.Time                `json:"startTime"`
	Application declared                    `json:"application"`
	// DeclaredBy is the object that the Application was compiled from; nil where people made that.
	DeclaredBy *declaration `json:"declaredBy,omitempty"`
	// Entities of the Application, by name; EntitiesOmitted is how many there were more than there is room for.
	Entities        []entity `json:"entities,omitempty"`
	EntitiesOmitted int      `json:"entitiesOmitted,omitempty"`
}

// declared is an Application.
type declared struct {
	Namespace string                     `json:"namespace"`
	Name      string                     `json:"name"`
	UID       string                     `json:"uid"`
	Spec      platformv1.ApplicationSpec `json:"spec"`
}

// declaration is an object of a typed kind.
type declaration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Spec       any    `json:"spec"`
}

// entity is one of the objects inside the middleware that were declared.
type entity struct {
	Name string                `json:"name"`
	Spec platformv1.EntitySpec `json:"spec"`
}

// maxEntities is how many bytes Entities may have: metadata travel in the plan of a mover, which is an annotation, and
// those have 256 KiB.
const maxEntities = 96 << 10

// metadata reads what is kept beside the data of a Backup.
func (c *Controller) metadata(ctx context.Context, b *platformv1.Backup,
	app *platformv1.Application) (json.RawMessage, error) {
	var list platformv1.EntityList
	if err := c.client.List(ctx, &list, client.InNamespace(app.Namespace)); err != nil {
		return nil, fmt.Errorf("cannot list the Entities of Application %q: %w", app.Name, err)
	}
	its := slices.DeleteFunc(list.Items, func(e platformv1.Entity) bool {
		return e.Spec.ApplicationRef.Name != app.Name || !e.DeletionTimestamp.IsZero()
	})
	from, err := c.declaration(ctx, app)
	if err != nil {
		return nil, err
	}
	return metadataOf(b, c.Domain, app, from, its)
}

// declaration reads the object that an Application was compiled from; nil where that is none that can be read.
func (c *Controller) declaration(ctx context.Context, app *platformv1.Application) (*unstructured.Unstructured, error) {
	above := metav1.GetControllerOf(app)
	if above == nil {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(above.APIVersion, above.Kind))
	err := c.live.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: above.Name}, object)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), err == nil && object.GetUID() != above.UID:
		// The Application says all that an instance is made of.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read %s %q, which Application %q was compiled from: %w", above.Kind, above.Name,
			app.Name, err)
	}
	return object, nil
}

// metadataOf is what is kept beside the data of a Backup.
func metadataOf(b *platformv1.Backup, domain string, app *platformv1.Application, from *unstructured.Unstructured,
	entities []platformv1.Entity) (json.RawMessage, error) {
	m := metadata{Backup: b.Name, Domain: domain, Schedule: b.Labels[platformv1.ScheduleLabel], Method: b.Spec.Method,
		Plugin: b.Status.Plugin, Version: b.Status.Version,
		Source: b.Status.Source, Sources: b.Status.Sources, StartTime: b.Status.StartTime,
		Application: declared{app.Namespace, app.Name, string(app.UID), app.Spec}}
	if from != nil {
		m.DeclaredBy = &declaration{APIVersion: from.GetAPIVersion(), Kind: from.GetKind(), Name: from.GetName(),
			Spec: from.Object["spec"]}
	}
	slices.SortFunc(entities, func(a, b platformv1.Entity) int { return cmp.Compare(a.Name, b.Name) })
	room := maxEntities
	for i := range entities {
		one := entity{entities[i].Name, entities[i].Spec}
		text, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		if room -= len(text); room < 0 {
			m.EntitiesOmitted = len(entities) - i
			break
		}
		m.Entities = append(m.Entities, one)
	}
	return json.Marshal(m)
}
