// SPDX-License-Identifier: Apache-2.0

package edits

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/event"
)

// eventReverted: an edit of an object that the engine makes was taken back.
const eventReverted = "EditReverted"

// maxFields is how many fields an event names.
const maxFields = 8

// Reverter takes edits back and says so, once each.
type Reverter struct {
	Client client.Client
	Apply  *apply.Applier
	Events *event.Recorder
	// Owner is the field owner of the objects.
	Owner string
}

// Observe returns what others did to an object. wanted is complete, its controller reference included; without is a
// field of it that is somebody else's.
func (r Reverter) Observe(live, wanted client.Object, leave func(Edit) bool, without ...string) (Found, error) {
	found, err := In(live, wanted, r.Owner, leave)
	if err != nil {
		return found, err
	}
	drifted, err := r.Apply.Drifted(live, wanted, without...)
	switch {
	case err != nil:
		return found, err
	case drifted:
		err = found.AndRemoved(live, wanted)
	case found.Any():
		found.Behind, err = r.behind(live, wanted, without...)
	}
	return found, err
}

// behind says whether an object was last applied as something else than is wanted. Earlier operators applied what they
// suspended as that.
func (r Reverter) behind(live, wanted client.Object, without ...string) (bool, error) {
	as, err := r.Apply.IsAppliedAs(live, wanted, without...)
	if err != nil || as {
		return false, err
	}
	held, ok := wanted.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("a copy of %T is no object", wanted)
	}
	switch typed := held.(type) {
	case *platformv1.Component:
		typed.Spec.Suspend = true
	case *platformv1.WorkloadSet:
		typed.Spec.Suspend = true
	}
	as, err = r.Apply.IsAppliedAs(live, held, without...)
	return !as, err
}

// Revert makes an object as it is wanted, however it was edited, and tells of the edits on it. why says why they could
// not stay, and where to change that. What the API server does not keep was no edit: nothing is told of it.
func (r Reverter) Revert(ctx context.Context, live, wanted client.Object, found Found, why string, without ...string) (
	apply.Change, error) {
	cleared, err := r.withdraw(ctx, live, wanted, found, without)
	if err != nil {
		return apply.Unchanged, err
	}
	change, err := r.Apply.Claim(ctx, cleared, wanted, without...)
	if cleared.GetResourceVersion() != live.GetResourceVersion() {
		if err != nil {
			// The next turn finds nothing any more of what is withdrawn.
			r.tellWithdrawn(live, cleared, found, why)
			return apply.Unchanged, err
		}
		change = apply.Updated
	}
	if err != nil || len(found.Edits) == 0 {
		return change, err
	}
	if !slices.ContainsFunc(found.Edits, func(e Edit) bool { return e.Manager != "" }) {
		// What was there and is wanted was only taken out, unless the API server never keeps it.
		if drifted, err := r.Apply.Drifted(live, wanted, without...); err != nil || !drifted {
			return change, err
		}
	}
	r.Tell(live, found, why)
	return change, nil
}

// tellWithdrawn tells of those edits of which there is nothing any more in an object, once they were withdrawn.
func (r Reverter) tellWithdrawn(live, cleared client.Object, found Found, why string) {
	is, err := contentOf(cleared)
	if err != nil {
		return
	}
	found.Edits = slices.DeleteFunc(slices.Clone(found.Edits),
		func(edit Edit) bool { return !equality.Semantic.DeepEqual(at(is, edit.Path), edit.Wanted) })
	if len(found.Edits) > 0 {
		r.Tell(live, found, why)
	}
}

// Tell says that edits of an object are taken back, and why.
func (r Reverter) Tell(live client.Object, found Found, why string) {
	r.Events.Warning(live, eventReverted, "%s, edited by %s, was taken back: %s", fieldsOf(found.Edits), found.By(), why)
}

// Suspend has an object left alone. Nothing else of it is written, so that edits which wait in it stay those of whoever
// made them. It ends when the object is wanted without: see Found.Shared.
func (r Reverter) Suspend(ctx context.Context, live client.Object) error {
	_, err := r.merge(ctx, live, map[string]any{"metadata": map[string]any{"uid": live.GetUID()},
		"spec": map[string]any{"suspend": true}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot suspend %q: %w", live.GetName(), err)
	}
	return nil
}

// withdraw takes out what others added, and returns the object as it is then. Nothing that somebody has put there since
// live was read goes with it.
func (r Reverter) withdraw(ctx context.Context, live, wanted client.Object, found Found, without []string) (
	client.Object, error) {
	content, err := contentOf(wanted)
	if err != nil {
		return nil, err
	}
	body := withdrawal(content, found)
	if body == nil {
		return live, nil
	}
	if _, isSet := live.(*platformv1.WorkloadSet); isSet && len(without) == 0 {
		setTogether(body, content)
	}
	body["metadata"] = map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()}
	cleared, err := r.merge(ctx, live, body)
	if err != nil {
		return nil, fmt.Errorf("cannot take edits of %q back: %w", live.GetName(), err)
	}
	return cleared, nil
}

// merge merges something into a live object, and returns that as it is then.
func (r Reverter) merge(ctx context.Context, live client.Object, body map[string]any) (client.Object, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	merged, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("a copy of %T is no object", live)
	}
	return merged, r.Client.Patch(ctx, merged, client.RawPatch(types.MergePatchType, data), client.FieldOwner(r.Owner))
}

// fieldsOf names the fields of edits.
func fieldsOf(edits []Edit) string {
	var fields []string
	for i, edit := range edits {
		if i == maxFields {
			fields = append(fields, fmt.Sprintf("and %d more", len(edits)-maxFields))
			break
		}
		fields = append(fields, edit.Field())
	}
	return strings.Join(fields, ", ")
}

// together are the fields of the spec of a WorkloadSet that the API server has change only in one write: which pods a
// set has.
var together = []string{"replicas", "excludedOrdinals", "members"}

// setTogether has a withdrawal that touches one of the fields which change together set all of them as they are wanted.
func setTogether(body, wanted map[string]any) {
	spec, _ := body["spec"].(map[string]any)
	if !slices.ContainsFunc(together, func(field string) bool { _, is := spec[field]; return is }) {
		return
	}
	want, _ := wanted["spec"].(map[string]any)
	for _, field := range together {
		spec[field] = want[field]
	}
}

// withdrawal is the patch that takes out what others have that is not wanted; nil when there is nothing to take out.
func withdrawal(wanted map[string]any, found Found) map[string]any {
	var body map[string]any
	out := slices.Concat(found.Edits, found.Shared)
	if !found.Behind {
		// What the object gets from elsewhere has to be there before it goes here, or it would have none of it for a moment.
		out = append(out, found.Had...)
	}
	for _, edit := range out {
		if !edit.isAddition() {
			continue
		}
		if body == nil {
			body = map[string]any{}
		}
		path, value := lacking(wanted, edit.Path)
		set(body, path, value)
	}
	return body
}

// isAddition says whether an edit is there that is not wanted at all, which an apply leaves in place.
func (e Edit) isAddition() bool { return e.Wanted == nil && e.inSpec() }

// lacking is the way to the first thing that wanted has not on the way to a path, and what is to be there: nothing, or
// the list that it is an element of.
func lacking(wanted any, path fieldpath.Path) (names []string, value any) {
	for _, element := range path {
		if element.FieldName == nil {
			return names, wanted
		}
		names = append(names, *element.FieldName)
		object, _ := wanted.(map[string]any)
		if wanted = object[*element.FieldName]; wanted == nil {
			return names, nil
		}
	}
	return names, wanted
}

// set sets a value in an object, whatever is on the way.
func set(object map[string]any, names []string, value any) {
	for _, name := range names[:len(names)-1] {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}
		object = next
	}
	object[names[len(names)-1]] = value
}
