// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// ObjectMaker is a capability of a kind whose Output has Objects.
type ObjectMaker interface {
	// ObjectKinds returns the group, version and kind of every object that Compile may return. The operator needs the
	// rights to get, list, watch, create, patch and delete them. One that is no longer compiled is looked for in these
	// kinds.
	ObjectKinds() []schema.GroupVersionKind
}

// ObjectReporter is a capability of an ObjectMaker whose status tells of its Objects.
type ObjectReporter[T Object] interface {
	// ReportObjects fills in the kind's own status fields from those Objects that exist, in the order of their kinds
	// and names.
	ReportObjects(T, []*unstructured.Unstructured)
}

// lookAgain is how soon an object is tried again that the API server refused: no watch tells of rights or kinds that
// come later.
const lookAgain = 30 * time.Second

// objectKey tells the Objects of an Output apart.
type objectKey struct {
	gvk schema.GroupVersionKind
	key client.ObjectKey
}

// String names an object for a person.
func (k objectKey) String() string { return fmt.Sprintf("%s %q", k.gvk.Kind, k.key.Name) }

func keyOf(u *unstructured.Unstructured) objectKey {
	return objectKey{u.GroupVersionKind(), client.ObjectKeyFromObject(u)}
}

// keepObjects brings the Objects of an object to what it declares, and returns how it stands with them. What one is
// refused for holds up no other. Errors: errNotSynced while it cannot be told which objects there are.
func (r *reconciler[T]) keepObjects(ctx context.Context, obj T, compiled []client.Object) (outcome.Outcome, error) {
	maker, ok := r.kind.(ObjectMaker)
	if !ok {
		return outcome.Done(), nil
	}
	wanted, err := r.wantedObjects(obj, compiled, maker.ObjectKinds())
	if err != nil {
		return outcome.Done(), err
	}
	refusals, err := r.readObjects(ctx, obj, maker.ObjectKinds())
	if err != nil {
		return outcome.Done(), err
	}
	have, err := r.ownedObjects(ctx, obj, maker.ObjectKinds(), refusals)
	if err != nil {
		return outcome.Done(), err
	}
	if reporter, ok := r.kind.(ObjectReporter[T]); ok {
		reporter.ReportObjects(obj, sortedObjects(have))
	}
	var outcomes []outcome.Outcome
	for _, object := range wanted {
		key := keyOf(object)
		if refusal := refusals[key.gvk]; refusal != nil {
			outcomes = append(outcomes, refusedObject(key, refusal))
		} else {
			outcomes = append(outcomes, r.applyObject(ctx, object, have[key]))
		}
		delete(have, key)
	}
	if err := confirm(ctx, r, obj, maps.Values(have)); err != nil {
		return outcome.Worst(append(outcomes, outcome.Failed(err))...), nil
	}
	for _, object := range sortedObjects(have) {
		if err := r.applyObjects.Delete(ctx, object); err != nil {
			outcomes = append(outcomes, refusedObject(keyOf(object), err))
		}
	}
	return outcome.Worst(outcomes...), nil
}

// wantedObjects returns the compiled Objects as they are applied.
func (r *reconciler[T]) wantedObjects(obj T, compiled []client.Object,
	kinds []schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	var wanted []*unstructured.Unstructured
	seen := map[objectKey]bool{}
	for _, object := range compiled {
		u, err := r.wantedObject(obj, object)
		if err != nil {
			return nil, err
		}
		key := keyOf(u)
		switch {
		case !slices.Contains(kinds, key.gvk):
			return nil, fmt.Errorf("kind %s compiles to %s, and ObjectKinds does not name that kind", r.kind.Name(), key)
		case seen[key]:
			return nil, Refuse(platformv1.ReasonInvalidSpec, fmt.Sprintf("%s is declared twice: give one of them another name",
				key))
		}
		seen[key], wanted = true, append(wanted, u)
	}
	return wanted, nil
}

// wantedObject is one compiled Object with labels and owner, in the form in which objects of all kinds are read.
func (r *reconciler[T]) wantedObject(obj T, object client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(object, r.client.Scheme())
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := (&unstructured.Unstructured{Object: content}).DeepCopy()
	u.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	if u.GetNamespace() == "" {
		u.SetNamespace(obj.GetNamespace())
	}
	if obj.GetNamespace() != "" && u.GetNamespace() != obj.GetNamespace() {
		return nil, Refuse(platformv1.ReasonInvalidSpec,
			fmt.Sprintf("%s is in namespace %q: what an object declares is in its own namespace %q",
				keyOf(u), u.GetNamespace(), obj.GetNamespace()))
	}
	own := map[string]string{}
	maps.Copy(own, u.GetLabels())
	own[platformv1.DomainLabel], own[platformv1.ManagedByLabel] = r.domain, platformv1.ManagedBy
	own[platformv1.OutputLabel] = strings.ToLower(r.kind.Name())
	u.SetLabels(own)
	return u, controllerutil.SetControllerReference(obj, u, r.client.Scheme())
}

// readObjects has the kinds watched, and returns why some cannot be read.
func (r *reconciler[T]) readObjects(ctx context.Context, obj T,
	kinds []schema.GroupVersionKind) (map[schema.GroupVersionKind]error, error) {
	refusals := map[schema.GroupVersionKind]error{}
	for _, gvk := range kinds {
		err := r.objects.ready(ctx, gvk, obj.GetNamespace())
		switch {
		case meta.IsNoMatchError(err), apierrors.IsForbidden(err):
			refusals[gvk] = err
		case errors.Is(err, errNotSynced):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("cannot read objects of kind %s: %w", gvk.Kind, err)
		case obj.GetNamespace() != "" && r.objects.isClustered(gvk):
			refusals[gvk] = Refuse(platformv1.ReasonInvalidSpec,
				"objects of this kind are in no namespace, and what is in a namespace cannot own them")
		}
	}
	return refusals, nil
}

// ownedObjects are the Objects that an object controls.
func (r *reconciler[T]) ownedObjects(ctx context.Context, obj T, kinds []schema.GroupVersionKind,
	refusals map[schema.GroupVersionKind]error) (map[objectKey]*unstructured.Unstructured, error) {
	have := map[objectKey]*unstructured.Unstructured{}
	for _, gvk := range kinds {
		if refusals[gvk] != nil {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		options := []client.ListOption{client.MatchingFields{ownerField: string(obj.GetUID())},
			client.InNamespace(obj.GetNamespace())}
		if err := r.objects.GetClient().List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("cannot list objects of kind %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(gvk)
			have[keyOf(&list.Items[i])] = &list.Items[i]
		}
	}
	return have, nil
}

// applyObject applies one Object and returns how it stands with it. live is what was read of it; nil for none.
func (r *reconciler[T]) applyObject(ctx context.Context, object, live *unstructured.Unstructured) outcome.Outcome {
	key := keyOf(object)
	change, err := r.applyObjects.Apply(ctx, object)
	switch {
	case err != nil:
		return refusedObject(key, err)
	case change != apply.Unchanged || live == nil:
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, fmt.Sprintf("%s takes up the change", key))
	}
	return ofObject(key, live)
}

// ofObject is how it stands with an object by the rules of kstatus, which know the kinds of Kubernetes and the
// conditions Ready, Reconciling and Stalled; an object of a kind without conditions is ready when it exists.
func ofObject(key objectKey, live *unstructured.Unstructured) outcome.Outcome {
	result, err := status.Compute(live)
	if err != nil {
		return outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("%s: its status cannot be read: %v", key, err))
	}
	reason := platformv1.ReasonProgressing
	if len(result.Conditions) > 0 && isReason.MatchString(result.Conditions[0].Reason) {
		reason = result.Conditions[0].Reason
	}
	message := fmt.Sprintf("%s: %s", key, result.Message)
	switch result.Status {
	case status.CurrentStatus:
		return outcome.Done()
	case status.FailedStatus:
		return outcome.Stalled(reason, message)
	default:
		return outcome.Waiting(reason, message)
	}
}

// isReason matches what a condition takes as a reason.
var isReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// refusedObject sorts an error about one Object. What only a person can mend stalls, and is tried again after a while.
func refusedObject(key objectKey, err error) outcome.Outcome {
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return outcome.Stalled(refusal.Reason, fmt.Sprintf("%s: %s", key, refusal.Message))
	case meta.IsNoMatchError(err):
		return outcome.StalledFor(lookAgain, platformv1.ReasonKindNotInstalled,
			fmt.Sprintf("%s: this cluster has no kind %s in %s: install what defines it", key, key.gvk.Kind,
				key.gvk.GroupVersion()))
	case apierrors.IsForbidden(err) && apply.Outcome(err).Reason() == outcome.ReasonFailed:
		return outcome.StalledFor(lookAgain, platformv1.ReasonForbidden,
			fmt.Sprintf("%s: the API server does not let the operator write it: "+
				"give the operator's account the rights, or mend what it says: %v", key, err))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return outcome.StalledFor(lookAgain, platformv1.ReasonInvalidSpec, fmt.Sprintf("%s: rejected by the API server: %v",
			key, err))
	}
	return apply.Outcome(err)
}

// sortedObjects are objects in the order of their kinds and names.
func sortedObjects(objects map[objectKey]*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.SortedFunc(maps.Values(objects), func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+"/"+a.GetNamespace()+"/"+a.GetName(),
			b.GetKind()+"/"+b.GetNamespace()+"/"+b.GetName())
	})
}
