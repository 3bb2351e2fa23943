// SPDX-License-Identifier: Apache-2.0

// Package apply makes objects as they are wanted, by server-side apply under one
// field owner, and writes only when something differs.
//
// A desired object is complete: what an Applier once applied and no longer finds
// in the desired object is removed. Desired objects carry their controller
// reference and their labels. An object that is not ours is never changed: see
// NameTakenError.
//
// The write is skipped when the live object carries the digest of the desired one
// (platformv1.AppliedAnnotation) and still has every field of it. So drift is
// repaired, and a restart of the operator writes nothing. The status of a desired
// object is not applied.
package apply

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Change says what a call did to the live object.
type Change string

// The changes.
const (
	// Unchanged: the live object was as wanted; nothing was written.
	Unchanged Change = "Unchanged"
	// Created: there was no such object before.
	Created Change = "Created"
	// Updated: the live object differed and was written.
	Updated Change = "Updated"
)

// settledSize is how many objects an Applier remembers whose live form does not
// show every desired field; there are few of them.
const settledSize = 1024

// checkedSize is how many objects an Applier remembers to be as wanted. More are compared field by field in each turn.
const checkedSize = 1 << 14

// madeSize is how many objects an Applier remembers to have made; a cache shows each soon.
const madeSize = 4096

// neverVersion is a resourceVersion that no object has: an apply that asks for it makes an object and changes none.
const neverVersion = "1"

// Applier writes objects under one field owner. It is safe for concurrent use.
type Applier struct {
	client client.Client
	live   client.Reader
	owner  string
	// settled holds, by UID, what the server made of our last write where that
	// still differs from the desired object, so that it is not written for ever.
	settled *lru.Cache
	// made holds the names of what this Applier made and its client has not shown since, so
	// that a cache that is behind does not have it made again.
	made *lru.Cache
	// checked holds, by UID, what was last found to be as wanted, so that it is not gone through again.
	checked *lru.Cache
}

// New returns an Applier whose client reads live objects, not a cache that may
// hide some. Operators use NewWithReader.
func New(c client.Client, owner string) *Applier { return NewWithReader(c, c, owner) }

// NewWithReader returns an Applier that compares with what c reads, commonly a
// label-selected cache. What that does not show is made, which the API server refuses
// when it is there all the same; the live reader is asked then, and where this
// Applier knows that it has made it. The owner is the name of the controller, for example "component".
func NewWithReader(c client.Client, live client.Reader, owner string) *Applier {
	return &Applier{client: c, live: live, owner: owner, settled: lru.New(settledSize), made: lru.New(madeSize),
		checked: lru.New(checkedSize)}
}

// Apply makes the live object have every field of obj, and lose those that an
// earlier Apply gave it and obj no longer has. obj itself is left as it is. A live
// object of ours that is being deleted is left alone: its end is an event.
//
// Errors: *NameTakenError when the live object is not ours; a conflict when it
// was replaced since it was read, which the next try mends.
func (a *Applier) Apply(ctx context.Context, obj client.Object) (Change, error) {
	return a.ApplyWithout(ctx, obj)
}

// ApplyWithout is Apply for an object of which one field, named by its path, is someone else's to decide: it is neither
// written nor compared. A field that is required needs an owner before it is left out; see Handover.
func (a *Applier) ApplyWithout(ctx context.Context, obj client.Object, path ...string) (Change, error) {
	live, err := a.find(ctx, obj)
	if err != nil {
		return Unchanged, fmt.Errorf("cannot apply %s: %w", describe(obj), err)
	}
	want, err := a.wanted(live, obj, path...)
	switch {
	case err != nil || want == nil:
		return Unchanged, err
	case live == nil:
		return a.create(ctx, obj, want)
	}
	return a.bring(ctx, live, want, a.force)
}

// wanted is what is to be compared with a live object, and sent; nil where that was found before to be as wanted.
func (a *Applier) wanted(live, obj client.Object, without ...string) (*desired, error) {
	given, err := fingerprintOf(obj, without...)
	if err != nil {
		return nil, fmt.Errorf("cannot apply %s: %w", describe(obj), err)
	}
	if live != nil {
		if last, found := a.checked.Get(live.GetUID()); found && last == (check{given: given, stamp: stampOf(live)}) {
			return nil, nil
		}
	}
	want, err := a.desired(obj, without...)
	if err != nil {
		return nil, fmt.Errorf("cannot apply %s: %w", describe(obj), err)
	}
	want.given = given
	return want, nil
}

// Would says what ApplyWithout would do, and writes nothing.
func (a *Applier) Would(ctx context.Context, obj client.Object, without ...string) (Change, error) {
	live, err := a.find(ctx, obj)
	if err != nil {
		return Unchanged, fmt.Errorf("cannot compare %s: %w", describe(obj), err)
	}
	if live == nil {
		return Created, nil
	}
	want, err := a.desired(obj, without...)
	if err != nil {
		return Unchanged, fmt.Errorf("cannot compare %s: %w", describe(obj), err)
	}
	if err := checkOwner(a.client.Scheme(), want.object, live); err != nil || live.GetDeletionTimestamp() != nil {
		return Unchanged, err
	}
	same, err := a.shows(live, want)
	if err != nil || same {
		return Unchanged, err
	}
	return Updated, nil
}

// DryRun has the API server judge obj as the next form of a live object of another owner, whose place this Applier is
// to take, and writes nothing. It returns what the server says against it.
func (a *Applier) DryRun(ctx context.Context, live, obj client.Object) error {
	want, err := a.desired(obj)
	if err != nil {
		return fmt.Errorf("cannot compare %s: %w", describe(obj), err)
	}
	patch := want.patch()
	patch.SetOwnerReferences(nil)
	patch.SetUID(live.GetUID())
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch),
		client.FieldOwner(a.owner), client.ForceOwnership, client.DryRunAll)
	if err != nil {
		return fmt.Errorf("cannot update %s: %w", want, err)
	}
	return nil
}

// Handover gives one field of a live object, with the value that it has there, to another field owner, so that
// ApplyWithout does not remove it. It is refused with a conflict when the object has changed since live was read.
func (a *Applier) Handover(ctx context.Context, live client.Object, to string, path ...string) error {
	gvk, err := apiutil.GVKForObject(live, a.client.Scheme())
	if err != nil {
		return err
	}
	content, err := contentOf(live)
	if err != nil {
		return err
	}
	value, found, err := unstructured.NestedFieldCopy(content, path...)
	if err != nil || !found {
		return fmt.Errorf("cannot hand over field %q of %s: it has none", strings.Join(path, "."), describe(live))
	}
	body := &unstructured.Unstructured{Object: map[string]any{}}
	if err := unstructured.SetNestedField(body.Object, value, path...); err != nil {
		return err
	}
	body.SetGroupVersionKind(gvk)
	body.SetName(live.GetName())
	body.SetNamespace(live.GetNamespace())
	body.SetUID(live.GetUID())
	body.SetResourceVersion(live.GetResourceVersion())
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(to),
		client.ForceOwnership)
}

// Create makes obj when there is no object of this name, and never changes one
// that is there. An object made by Create is not to be kept by Apply as well.
//
// Errors: *NameTakenError when the object that is there is not ours.
func (a *Applier) Create(ctx context.Context, obj client.Object) (Change, error) {
	live, err := a.find(ctx, obj)
	if err != nil {
		return Unchanged, fmt.Errorf("cannot create %s: %w", describe(obj), err)
	}
	if live != nil {
		return Unchanged, checkOwner(a.client.Scheme(), obj, live)
	}
	created, err := copyOf(obj)
	if err != nil {
		return Unchanged, err
	}
	err = a.client.Create(ctx, created, client.FieldOwner(a.owner))
	if err == nil {
		a.made.Add(nameFor(obj), nil)
		return Created, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return Unchanged, fmt.Errorf("cannot create %s: %w", describe(obj), err)
	}
	// Someone came first: perhaps we ourselves, through another replica.
	live, err = read(ctx, a.live, obj)
	if err != nil {
		return Unchanged, fmt.Errorf("cannot read %s: %w", describe(obj), err)
	}
	if live == nil {
		return Unchanged, fmt.Errorf("cannot create %s: it was there and is gone again", describe(obj))
	}
	return Unchanged, checkOwner(a.client.Scheme(), obj, live)
}

// Delete deletes the very object that obj is an image of: its UID must be set. It
// is fine when that object is gone, replaced by another of its name, or already
// being deleted.
func (a *Applier) Delete(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	if uid == "" {
		return fmt.Errorf("cannot delete %s: its UID is not known; read it first", describe(obj))
	}
	if obj.GetDeletionTimestamp() != nil {
		return nil
	}
	target, err := copyOf(obj)
	if err != nil {
		return err
	}
	err = a.client.Delete(ctx, target, client.Preconditions{UID: &uid},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		live, readErr := read(ctx, a.live, obj)
		if readErr == nil && (live == nil || live.GetUID() != uid) {
			return nil
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete %s: %w", describe(obj), err)
	}
	return nil
}

// create applies an object that is not there as far as is known. When it is, nothing is
// changed before it was looked at: it may be someone else's.
func (a *Applier) create(ctx context.Context, obj client.Object, want *desired) (Change, error) {
	patch := want.patch()
	patch.SetResourceVersion(neverVersion)
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(a.owner))
	if err == nil {
		a.made.Add(nameFor(obj), nil)
		a.settle(patch, want)
		return Created, nil
	}
	if !apierrors.IsConflict(err) {
		return Unchanged, fmt.Errorf("cannot create %s: %w", want, err)
	}
	live, readErr := read(ctx, a.live, obj)
	if readErr != nil {
		return Unchanged, fmt.Errorf("cannot read %s: %w", want, readErr)
	}
	if live == nil {
		return Unchanged, fmt.Errorf("cannot create %s: %w", want, err)
	}
	return a.bring(ctx, live, want, a.force)
}

// bring brings a live object to what is wanted, by a write where it is not so.
func (a *Applier) bring(ctx context.Context, live client.Object, want *desired,
	write func(context.Context, client.Object, *desired) error) (Change, error) {
	if err := checkOwner(a.client.Scheme(), want.object, live); err != nil {
		return Unchanged, err
	}
	if live.GetDeletionTimestamp() != nil {
		return Unchanged, nil
	}
	same, err := a.shows(live, want)
	if err != nil {
		return Unchanged, err
	}
	if same {
		a.checked.Add(live.GetUID(), check{given: want.given, stamp: stampOf(live)})
		return Unchanged, nil
	}
	if err := write(ctx, live, want); err != nil {
		return Unchanged, err
	}
	return Updated, nil
}

// force writes what is wanted, whatever the live object is like by now.
func (a *Applier) force(ctx context.Context, live client.Object, want *desired) error {
	return a.write(ctx, live, want, want.patch(), client.ForceOwnership)
}

// write applies a patch with what is wanted, which has the server's answer then.
func (a *Applier) write(ctx context.Context, live client.Object, want *desired, patch *unstructured.Unstructured,
	options ...client.ApplyOption) error {
	// The UID makes the server refuse when this object was replaced meanwhile.
	patch.SetUID(live.GetUID())
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch),
		append(options, client.FieldOwner(a.owner))...)
	if err != nil {
		return fmt.Errorf("cannot update %s: %w", want, err)
	}
	a.settle(patch, want)
	return nil
}

// shows says whether a live object is as wanted.
func (a *Applier) shows(live client.Object, want *desired) (bool, error) {
	current, err := contentOf(live)
	if err != nil {
		return false, fmt.Errorf("cannot compare %s with the live one: %w", want, err)
	}
	return want.isDigestOf(live) && (contains(current, want.content) || a.isSettled(live, current, want)), nil
}

// find returns the live object, from the cache when that has it; nil when there is none as far as is known.
func (a *Applier) find(ctx context.Context, obj client.Object) (client.Object, error) {
	found, err := read(ctx, a.client, obj)
	if err != nil {
		return nil, err
	}
	name := nameFor(obj)
	if found != nil {
		a.made.Remove(name)
		return found, nil
	}
	if _, known := a.made.Get(name); !known {
		return nil, nil
	}
	return read(ctx, a.live, obj)
}

// named is what tells objects of all kinds apart.
type named struct {
	kind reflect.Type
	gvk  schema.GroupVersionKind
	key  types.NamespacedName
}

func nameFor(obj client.Object) named {
	name := named{kind: reflect.TypeOf(obj), key: client.ObjectKeyFromObject(obj)}
	if untyped, ok := obj.(*unstructured.Unstructured); ok {
		name.gvk = untyped.GroupVersionKind()
	}
	return name
}

// settle remembers what the server made of a write when that does not show all
// that is wanted, for example because it spells a value in its own way.
func (a *Applier) settle(result *unstructured.Unstructured, want *desired) {
	stored, err := a.typed(result, want)
	if err != nil {
		return
	}
	content, err := contentOf(stored)
	if err != nil || contains(content, want.content) {
		a.settled.Remove(result.GetUID())
		return
	}
	a.settled.Add(result.GetUID(), want.digest+fingerprint(content))
}

func (a *Applier) isSettled(live client.Object, content map[string]any, want *desired) bool {
	known, found := a.settled.Get(live.GetUID())
	return found && known == want.digest+fingerprint(content)
}

// typed brings the server's answer into the Go type of the desired object, as a later read will.
func (a *Applier) typed(answer *unstructured.Unstructured, want *desired) (client.Object, error) {
	if _, ok := want.object.(*unstructured.Unstructured); ok {
		return answer, nil
	}
	object, err := emptyOf(want.object)
	if err != nil {
		return nil, err
	}
	return object, runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, object)
}

func (a *Applier) desired(obj client.Object, without ...string) (*desired, error) {
	gvk, err := apiutil.GVKForObject(obj, a.client.Scheme())
	if err != nil {
		return nil, err
	}
	object, err := copyOf(obj)
	if err != nil {
		return nil, err
	}
	spellOut(object)
	content, err := contentOf(object)
	if err != nil {
		return nil, err
	}
	if len(without) > 0 {
		unstructured.RemoveNestedField(content, without...)
	}
	digest := fingerprint(content)
	return &desired{gvk: gvk, object: object, content: content, digest: digest}, nil
}

// spellOut says what two types of Kubernetes say in a form that cannot be read back.
func spellOut(obj client.Object) {
	switch typed := obj.(type) {
	case *corev1.Secret:
		// stringData is write-only: the server moves it into data.
		for key, value := range typed.StringData {
			if typed.Data == nil {
				typed.Data = map[string][]byte{}
			}
			typed.Data[key] = []byte(value)
		}
		typed.StringData = nil
	case *corev1.Service:
		// A target port that is left out is written as 0, and the server puts the port there.
		for i := range typed.Spec.Ports {
			if port := &typed.Spec.Ports[i]; port.TargetPort == (intstr.IntOrString{}) {
				port.TargetPort = intstr.FromInt32(port.Port)
			}
		}
	}
}

func read(ctx context.Context, reader client.Reader, obj client.Object) (client.Object, error) {
	live, err := emptyOf(obj)
	if err != nil {
		return nil, err
	}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return live, nil
}

func copyOf(obj client.Object) (client.Object, error) {
	object, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("a copy of %T is no object", obj)
	}
	return object, nil
}

// describe names an object for a person: "Redis default/a".
func describe(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = fmt.Sprintf("%T", obj)
		kind = kind[strings.LastIndex(kind, ".")+1:]
	}
	return fmt.Sprintf("%s %q", kind, client.ObjectKeyFromObject(obj))
}

// managed says whether an object carries the label of what the engine owns.
func managed(obj client.Object) bool {
	return obj.GetLabels()[platformv1.ManagedByLabel] == platformv1.ManagedBy
}
