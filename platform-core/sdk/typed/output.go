// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Output is what an object of a typed kind compiles to. Every field may be empty. The object is ready when all that it
// declares is.
type Output struct {
	// Application is the instance that the object declares: its spec, and labels and annotations if any. The frame sets
	// its name, namespace, domain label and owner reference. One that is no longer compiled stays, and stalls the
	// object until somebody deletes it: no operator deletes an instance, which may have data, as a side effect.
	Application *platformv1.Application
	// Entities are objects inside a middleware, of which no two have the same applicationRef, type and name. One
	// without applicationRef is inside the Application of this Output. One that is no longer compiled is deleted, and
	// with it what its deletionPolicy says. The operator needs the rights to create and delete Entities.
	Entities []platformv1.EntitySpec
	// Objects are Kubernetes objects, applied as a whole, of the kinds that the kind names (see ObjectMaker). The frame
	// sets namespace, labels and owner reference. One that is no longer compiled is deleted.
	Objects []client.Object
	// Operations are runs of procedures, each created once (see Runner): a name that no other Operation of this Output
	// has, labels and annotations if any, and the spec. One that is no longer compiled is cancelled, and its record
	// stays.
	Operations []*platformv1.Operation
	// Refused says why a part of the spec has no effect, while all of this Output is applied: the object stalls with it.
	// An error of Compile has nothing applied. See Refuse for a reason of one's own; nil for nothing.
	Refused error
}

// compile returns what the object declares, complete but for its owner.
func compile[T Object](kind Kind[T], obj T, domain string, referents Referents) (*Output, error) {
	out, err := compileWith(kind, obj, referents)
	if err != nil {
		return nil, err
	}
	if err := completeApplication(kind, obj, domain, out.Application); err != nil {
		return nil, err
	}
	for i := range out.Entities {
		spec := &out.Entities[i]
		if err := checkLengths(spec); err != nil {
			return nil, err
		}
		switch {
		case spec.ApplicationRef.Name != "":
		case out.Application == nil:
			return nil, fmt.Errorf("kind %s compiles to %s %q that is inside no Application", kind.Name(), spec.Type, spec.Name)
		default:
			spec.ApplicationRef.Name = out.Application.Name
			// What volumes have from earlier was there before anybody could have made it beside this object.
			spec.Adopt = spec.Adopt || out.Application.Spec.AdoptVolumes != ""
		}
	}
	return out, nil
}

// completeApplication gives a compiled Application its name, namespace and labels.
func completeApplication[T Object](kind Kind[T], obj T, domain string, app *platformv1.Application) error {
	if app == nil {
		return nil
	}
	name := applicationName(kind, obj)
	if extra := len(name) - platformv1.MaxApplicationName; extra > 0 {
		return fmt.Errorf("metadata.name: %q is too long, the name of a %s has at most %d characters",
			obj.GetName(), kind.Name(), len(obj.GetName())-extra)
	}
	if len(validation.IsDNS1035Label(name)) > 0 {
		return fmt.Errorf("metadata.name: %q becomes part of the name of a Service, which takes lower-case "+
			"letters, digits and hyphens: create the %s under another name", obj.GetName(), kind.Name())
	}
	if version := obj.GetAnnotations()[platformv1.PluginVersionAnnotation]; version != "" && !declaresPluginVersion(kind) {
		// An Operation brought it there: the kind names the version that a new instance begins with.
		app.Spec.PluginVersion = version
	}
	app.Spec.PluginVersion = platformv1.CanonicalPluginVersion(app.Spec.PluginVersion)
	app.Name, app.Namespace = name, obj.GetNamespace()
	own := app.Labels
	app.Labels = carried(obj.GetLabels())
	maps.Copy(app.Labels, own)
	app.Labels[platformv1.DomainLabel] = domain
	app.Labels[platformv1.ManagedByLabel] = platformv1.ManagedBy
	if own := platformv1.ApplicationNameFor(kind.Name(), obj.GetName()); own != name {
		app.Labels[platformv1.DeclaredAsLabel] = own
	}
	return nil
}

// compileWith has the kind compile the object, with its references where the kind has any.
func compileWith[T Object](kind Kind[T], obj T, referents Referents) (*Output, error) {
	if referrer, ok := kind.(Referrer[T]); ok {
		return referrer.CompileWith(obj, referents)
	}
	return kind.Compile(obj)
}
