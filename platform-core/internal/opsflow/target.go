// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TargetKind says what an Operation names as its target.
type TargetKind string

// Kinds of targets.
const (
	// TargetApplication: an Application and all of its pods.
	TargetApplication TargetKind = "Application"
	// TargetComponent: the pods of one component.
	TargetComponent TargetKind = "Component"
	// TargetWorkloadSet: the pods of one set.
	TargetWorkloadSet TargetKind = "WorkloadSet"
	// TargetTyped: an object of a domain API, which compiles to an Application.
	TargetTyped TargetKind = "Typed"
)

// Target is a target reference that was understood.
type Target struct {
	// Kind of target.
	Kind TargetKind
	// Group, ObjectKind and Name as the reference gives them.
	Group, ObjectKind, Name string
	// Application that the target is or compiles to, unless a typed object took over that of another one: see
	// instance.NameOf. Empty for a Component and a WorkloadSet, whose spec names it.
	Application string
}

// ParseTarget reads a reference. It refuses kinds of the core group that are no targets.
func ParseTarget(ref platformv1.TargetReference) (Target, *Refusal) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Group == "" || gv.Version == "" {
		return Target{}, refuse(platformv1.ReasonTargetNotFound,
			"targetRef.apiVersion %q is not a group and a version such as %q", ref.APIVersion, platformv1.GroupVersion)
	}
	target := Target{Group: gv.Group, ObjectKind: ref.Kind, Name: ref.Name}
	if gv.Group != platformv1.GroupVersion.Group {
		target.Kind, target.Application = TargetTyped, platformv1.ApplicationNameFor(ref.Kind, ref.Name)
		return target, nil
	}
	kinds := []TargetKind{TargetApplication, TargetComponent, TargetWorkloadSet}
	target.Kind = TargetKind(ref.Kind)
	if gv.Version != platformv1.GroupVersion.Version || !slices.Contains(kinds, target.Kind) {
		return Target{}, refuse(platformv1.ReasonTargetNotFound,
			"%s of %s cannot be the target of an Operation: name an Application, Component or WorkloadSet of %s, or a typed "+
				"object",
			ref.Kind, ref.APIVersion, platformv1.GroupVersion)
	}
	if target.Kind == TargetApplication {
		target.Application = ref.Name
	}
	return target, nil
}

// String names the target for people.
func (t Target) String() string { return fmt.Sprintf("%s %q", t.ObjectKind, t.Name) }

// Absent is the refusal of a target that is not there.
func (t Target) Absent(namespace string) *Refusal {
	if t.Kind == TargetTyped {
		return refuse(platformv1.ReasonTargetNotFound,
			"there is no %s of group %s in namespace %q that an operator serves: check kind, name and namespace of the target",
			t, t.Group, namespace)
	}
	return refuse(platformv1.ReasonTargetNotFound,
		"there is no %s in namespace %q: check kind, name and namespace of the target", t, namespace)
}

// Owns says whether the Application is the one that a typed target compiles to:
// it must be controlled by the object that the reference names, not just have a name like that.
func (t Target) Owns(app *platformv1.Application) bool {
	if t.Kind != TargetTyped {
		return true
	}
	owner := metav1.GetControllerOf(app)
	if owner == nil {
		return false
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && gv.Group == t.Group && owner.Kind == t.ObjectKind && owner.Name == t.Name
}

// DeclaredBy returns the outermost object that declares an Application, and says how to refer to it: the object that
// the Application compiles from, or the Application itself.
func DeclaredBy(app *platformv1.Application) (schema.GroupKind, platformv1.TargetReference) {
	if owner := metav1.GetControllerOf(app); owner != nil {
		reference := platformv1.TargetReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name}
		if target, refusal := ParseTarget(reference); refusal == nil && target.Kind == TargetTyped &&
			(target.Application == app.Name || target.Application == app.Labels[platformv1.DeclaredAsLabel]) {
			return schema.GroupKind{Group: target.Group, Kind: target.ObjectKind}, reference
		}
	}
	gvk := platformv1.GroupVersion.WithKind("Application")
	return gvk.GroupKind(), platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: gvk.Kind,
		Name: app.Name}
}

// Selects says whether the pods of a set belong to the target. component is the
// name within the plugin of a target that is a Component; it is not used otherwise.
func (t Target) Selects(set *platformv1.WorkloadSet, component string) bool {
	switch t.Kind {
	case TargetWorkloadSet:
		return set.Name == t.Name
	case TargetComponent:
		return set.Spec.Component == component
	}
	return true
}
