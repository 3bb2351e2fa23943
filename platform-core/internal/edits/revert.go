// SPDX-License-Identifier: Apache-2.0

package edits

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

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

// Observe returns what others did to an object. wanted is complete, its controller reference included; without is a field of it that is somebody else's.
func (r Reverter) Observe(live, wanted client.Object, leave func(Edit) bool, without ...string) (Found, error) {
	found, err := In(live, wanted, r.Owner, leave)
	if err != nil {
		return found, err
	}
	drifted, err := r.Apply.Drifted(live, wanted, without...)
	if err != nil || !drifted {
		return found, err
	}
	return found, found.AndRemoved(live, wanted)
}

// Revert makes an object as it is wanted, however it was edited, and tells of the edits on it. why says why they could not stay, and where to change that. What
// the API server does not keep was no edit: nothing is told of it.
func (r Reverter) Revert(ctx context.Context, live, wanted client.Object, found Found, why string, without ...string) (apply.Change, error) {
	if body := withdrawal(wanted, found); body != nil {
		body["metadata"] = map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()}
		data, err := json.Marshal(body)
		if err != nil {
			return apply.Unchanged, err
		}
		cleared, ok := live.DeepCopyObject().(client.Object)
		if !ok {
			return apply.Unchanged, fmt.Errorf("a copy of %T is no object", live)
		}
		if err := r.Client.Patch(ctx, cleared, client.RawPatch(types.MergePatchType, data), client.FieldOwner(r.Owner)); err != nil {
			return apply.Unchanged, fmt.Errorf("cannot take edits of %q back: %w", live.GetName(), err)
		}
	}
	change, err := r.Apply.Claim(ctx, wanted, without...)
	if err != nil || len(found.Edits) == 0 {
		return change, err
	}
	if !slices.ContainsFunc(found.Edits, func(e Edit) bool { return e.Manager != "" }) {
		// What was there and is wanted was only taken out, unless the API server never keeps it.
		if drifted, err := r.Apply.Drifted(live, wanted, without...); err != nil || !drifted {
			return change, err
		}
	}
	r.Events.Warning(live, eventReverted, "%s, edited by %s, was taken back: %s", fieldsOf(found.Edits), found.By(), why)
	return change, nil
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

// withdrawal is the patch that takes out what others added, which an apply leaves in place; nil when there is nothing to take out.
func withdrawal(wanted client.Object, found Found) map[string]any {
	var body map[string]any
	for _, edit := range found.Edits {
		if edit.Wanted != nil || !edit.inSpec() {
			continue
		}
		content, err := contentOf(wanted)
		if err != nil {
			continue
		}
		if body == nil {
			body = map[string]any{}
		}
		path, value := lacking(content, edit.Path)
		set(body, path, value)
	}
	return body
}

// lacking is the way to the first thing that wanted has not on the way to a path, and what is to be there: nothing, or the list that it is an element of.
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
