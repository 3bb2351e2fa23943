// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Output is what an object of a typed kind compiles to. Every field may be empty.
type Output struct {
	// Application is the instance that the object declares: its spec, and labels and annotations if any. The frame sets its name,
	// namespace, domain label and owner reference.
	Application *platformv1.Application
	// Entities are objects inside a middleware, of which no two have the same applicationRef, type and name. One without applicationRef
	// is inside the Application of this Output. One that is no longer compiled is deleted, and with it what its deletionPolicy says.
	// The operator needs the rights to create and delete Entities.
	Entities []platformv1.EntitySpec
	// Objects are Kubernetes objects in the namespace of the object.
	Objects []client.Object
	// Operations are runs of procedures.
	Operations []*platformv1.Operation
}

// compile returns what the object declares, complete but for its owner.
func compile[T Object](kind Kind[T], obj T, domain string, referents Referents) (*Output, error) {
	name := platformv1.ApplicationNameFor(kind.Name(), obj.GetName())
	if extra := len(name) - platformv1.MaxApplicationName; extra > 0 {
		return nil, fmt.Errorf("metadata.name: %q is too long, the name of a %s has at most %d characters",
			obj.GetName(), kind.Name(), len(obj.GetName())-extra)
	}
	if len(validation.IsDNS1035Label(name)) > 0 {
		return nil, fmt.Errorf("metadata.name: %q becomes part of the name of a Service, which takes lower-case "+
			"letters, digits and hyphens: create the %s under another name", obj.GetName(), kind.Name())
	}
	out, err := compileWith(kind, obj, referents)
	switch {
	case err != nil:
		return nil, err
	case out.Application == nil, len(out.Objects) > 0, len(out.Operations) > 0:
		return nil, errors.New("only an Application and Entities are supported")
	}
	app := out.Application
	if version := obj.GetAnnotations()[platformv1.PluginVersionAnnotation]; version != "" && !declaresPluginVersion(kind) {
		// An Operation brought it there: the kind names the version that a new instance begins with.
		app.Spec.PluginVersion = version
	}
	app.Name, app.Namespace = name, obj.GetNamespace()
	own := app.Labels
	app.Labels = carried(obj.GetLabels())
	maps.Copy(app.Labels, own)
	app.Labels[platformv1.DomainLabel] = domain
	app.Labels[platformv1.ManagedByLabel] = platformv1.ManagedBy
	for i := range out.Entities {
		spec := &out.Entities[i]
		if spec.ApplicationRef.Name == "" {
			spec.ApplicationRef.Name = app.Name
			// What volumes have from earlier was there before anybody could have made it beside this object.
			spec.Adopt = spec.Adopt || app.Spec.AdoptVolumes != ""
		}
	}
	return out, nil
}

// compileWith has the kind compile the object, with its references where the kind has any.
func compileWith[T Object](kind Kind[T], obj T, referents Referents) (*Output, error) {
	if referrer, ok := kind.(Referrer[T]); ok {
		return referrer.CompileWith(obj, referents)
	}
	return kind.Compile(obj)
}
