// SPDX-License-Identifier: Apache-2.0

// Package edits tells what somebody else changed in an object that the engine makes: not what the engine itself would
// make of it now and did not before.
//
// The API server keeps who wrote which field. A field that the engine applied and somebody else wrote since is his
// alone; one that is merely rendered otherwise is still the engine's, or nobody's. So neither a changed spec nor a new
// operator looks like an edit. What somebody took out is nobody's either: that counts only while the engine wants the
// very object that it applied last.
package edits

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
)

// Edit is one field that somebody else changed.
type Edit struct {
	// Path of the field.
	Path fieldpath.Path
	// Manager who wrote it; empty where it was taken out, which leaves no trace of who did.
	Manager string
	// At is when he wrote to the object last, to the second; zero where nobody knows.
	At time.Time
	// Wanted is what it is to be, and Is what it is, both as of JSON; nil for none.
	Wanted, Is any
}

// Field names the field for a person, for example spec.sets[main].replicas.
func (e Edit) Field() string {
	field := ""
	for _, element := range e.Path {
		switch {
		case element.FieldName != nil:
			field += "." + *element.FieldName
		case element.Key != nil:
			field += "[" + keyOf(element) + "]"
		}
	}
	return strings.TrimPrefix(field, ".")
}

// Within says whether the field is one of these, or below one.
func (e Edit) Within(fields ...string) bool {
	return slices.ContainsFunc(fields, func(field string) bool {
		rest, is := strings.CutPrefix(e.Field(), field)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Found is what somebody else did to one object.
type Found struct {
	// Edits are the fields that are not as wanted, in order.
	Edits []Edit
	// Adopted are the fields that somebody else wrote and that are as wanted by now: the engine has yet to write them
	// itself.
	Adopted []Edit
	// Shared are fields that the engine wrote and does not want any more, and that somebody else is down for too, or the
	// engine itself for another way of writing: an apply leaves them where they are. They are taken out without a word.
	Shared []Edit
	// Had are fields that somebody else wrote and that the object gets from elsewhere by now, see Have. They are taken out
	// without a word, once it does.
	Had []Edit
	// Behind says that the object was last applied as something else than it is to be now, so that some of what is not as
	// wanted may be the engine's own to write, and newer than the edits. That the object was suspended in between does not
	// count.
	Behind bool
}

// Any says whether there is anything to do.
func (f Found) Any() bool { return len(f.Edits)+len(f.Adopted)+len(f.Shared)+len(f.Had) > 0 }

// Have takes those of the edits for had that had says are, whose values the object gets from elsewhere.
func (f *Found) Have(had func(Edit) bool) {
	var edits []Edit
	for _, edit := range f.Edits {
		if had(edit) {
			f.Had = append(f.Had, edit)
			continue
		}
		edits = append(edits, edit)
	}
	f.Edits = edits
}

// At is when the first of the edits was written that are not as wanted; zero where nobody knows.
func (f Found) At() time.Time {
	var first time.Time
	for _, edit := range f.Edits {
		if !edit.At.IsZero() && (first.IsZero() || edit.At.Before(first)) {
			first = edit.At
		}
	}
	return first
}

// By names those who edited, in order.
func (f Found) By() string {
	var names []string
	for _, edit := range f.Edits {
		if edit.Manager != "" && !slices.Contains(names, edit.Manager) {
			names = append(names, edit.Manager)
		}
	}
	if slices.Sort(names); len(names) == 0 {
		return "somebody"
	}
	return strings.Join(names, " and ")
}

// In returns what others wrote into an object that a field owner applies as wanted. live has its managed fields, but
// see Kept. Fields that are to be left to others are told by leave.
func In(live, wanted client.Object, owner string, leave func(Edit) bool) (Found, error) {
	var found Found
	theirs, ours, err := split(live.GetManagedFields(), owner)
	if err != nil || len(theirs) == 0 {
		return found, err
	}
	is, err := contentOf(live)
	if err != nil {
		return found, err
	}
	want, err := contentOf(wanted)
	if err != nil {
		return found, err
	}
	seen, all := fieldpath.NewSet(), ours
	for _, one := range theirs {
		all = all.Union(one.set)
	}
	for _, one := range theirs {
		one.set.Leaves().Iterate(func(path fieldpath.Path) {
			// Who first put something into an object is down for the object itself, which says nothing of what others have in
			// it.
			if path = path.Copy(); !concerns(path) || seen.Has(path) || isAbove(all, path) {
				return
			}
			seen.Insert(path)
			edit := Edit{Path: path, Manager: one.manager, At: one.at}
			edit.Is, edit.Wanted = at(is, path), at(want, path)
			if one.manager == owner || ours.Has(path) {
				found.share(edit, leave)
				return
			}
			found.add(edit, leave)
		})
	}
	slices.SortFunc(found.Edits, func(a, b Edit) int { return a.Path.Compare(b.Path) })
	return found, nil
}

// share keeps what the engine wrote, now or before, where it is there and not wanted any more.
func (f *Found) share(edit Edit, leave func(Edit) bool) {
	if edit.Wanted == nil && edit.inSpec() && !apply.IsEmpty(edit.Is) && !leave(edit) {
		f.Shared = append(f.Shared, edit)
	}
}

func (f *Found) add(edit Edit, leave func(Edit) bool) {
	switch {
	case apply.IsEmpty(edit.Is) && apply.IsEmpty(edit.Wanted), isEmptied(edit), leave(edit):
	case edit.Wanted == nil && !edit.inSpec():
		// Labels and annotations are there for others to add to.
	case equality.Semantic.DeepEqual(edit.Is, edit.Wanted):
		f.Adopted = append(f.Adopted, edit)
	default:
		f.Edits = append(f.Edits, edit)
	}
}

// isEmptied says whether an edit left nothing of an object of fields. Which of them went, AndRemoved tells.
func isEmptied(edit Edit) bool {
	_, ofFields := edit.Wanted.(map[string]any)
	return ofFields && apply.IsEmpty(edit.Is)
}

// isAbove says whether somebody owns anything below a path.
func isAbove(all *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path {
		all = all.WithPrefix(element)
	}
	return !all.Empty()
}

// AndRemoved adds what is wanted and not there, in the spec and of labels, of an object that was applied as wanted and
// is not so any more.
func (f *Found) AndRemoved(live, wanted client.Object) error {
	is, err := contentOf(live)
	if err != nil {
		return err
	}
	want, err := contentOf(wanted)
	if err != nil {
		return err
	}
	var removed []Edit
	missing(fieldpath.Path{}, decidedOf(is), decidedOf(want), &removed)
	for _, edit := range removed {
		if concerns(edit.Path) && !slices.ContainsFunc(f.Edits,
			func(known Edit) bool { return within(known.Path, edit.Path) || within(edit.Path, known.Path) }) {
			f.Edits = append(f.Edits, edit)
		}
	}
	slices.SortFunc(f.Edits, func(a, b Edit) int { return a.Path.Compare(b.Path) })
	return nil
}

// decidedOf is what of an object the engine decides, but see concerns.
func decidedOf(content map[string]any) map[string]any {
	metadata, _ := content["metadata"].(map[string]any)
	return map[string]any{"spec": content["spec"], "metadata": map[string]any{"labels": metadata["labels"]}}
}

// within says whether a path is another one, or below it.
func within(above, path fieldpath.Path) bool {
	return len(path) >= len(above) && path[:len(above)].Equals(above)
}

// missing goes down where an object is wanted, however little of it is left, and where both have a list of named
// elements.
func missing(path fieldpath.Path, is, want any, removed *[]Edit) {
	switch wanted := want.(type) {
	case map[string]any:
		has, isObject := is.(map[string]any)
		if is != nil && !isObject {
			break
		}
		for name, value := range wanted {
			missing(append(path.Copy(), fieldpath.PathElement{FieldName: new(name)}), has[name], value, removed)
		}
		return
	case []any:
		has, _ := is.([]any)
		if has == nil {
			break
		}
		if !named(wanted) || !named(has) {
			if !equality.Semantic.DeepEqual(has, wanted) {
				*removed = append(*removed, Edit{Path: path, Wanted: want, Is: is})
			}
			return
		}
		for _, value := range wanted {
			below := append(path.Copy(), fieldpath.PathElement{Key: fieldpath.KeyByFields("name", nameOf(value))})
			element := elementNamed(has, nameOf(value))
			if element == nil {
				// It went as a whole: nobody chose what of it is to go.
				*removed = append(*removed, Edit{Path: below, Wanted: value})
				continue
			}
			missing(below, element, value, removed)
		}
		return
	}
	if is == nil && !apply.IsEmpty(want) {
		*removed = append(*removed, Edit{Path: path, Wanted: want})
	}
}

// Kept are the managed fields by which In can tell: none of an object that nobody else wrote to, which are nearly all.
func Kept(entries []metav1.ManagedFieldsEntry, owner string) []metav1.ManagedFieldsEntry {
	if !slices.ContainsFunc(entries, func(entry metav1.ManagedFieldsEntry) bool { return isTheirs(&entry, owner) }) {
		return nil
	}
	return slices.DeleteFunc(entries, func(entry metav1.ManagedFieldsEntry) bool {
		return !isTheirs(&entry, owner) && !isOurs(&entry, owner)
	})
}

func isOurs(entry *metav1.ManagedFieldsEntry, owner string) bool {
	return entry.Manager == owner && entry.Operation == metav1.ManagedFieldsOperationApply
}

// isTheirs says whether an entry is of somebody else, and of something that In speaks of. To look for a name in the
// text is enough here, and costs next to nothing.
func isTheirs(entry *metav1.ManagedFieldsEntry, owner string) bool {
	if isOurs(entry, owner) || entry.Subresource == "status" || entry.FieldsV1 == nil {
		return false
	}
	text := string(entry.FieldsV1.GetRawBytes())
	return strings.Contains(text, `"f:spec"`) || strings.Contains(text, `"f:labels"`)
}

type managed struct {
	manager string
	at      time.Time
	set     *fieldpath.Set
}

// split parses what others wrote, the latest first, and what the owner did.
func split(entries []metav1.ManagedFieldsEntry, owner string) (theirs []managed, ours *fieldpath.Set, err error) {
	ours = fieldpath.NewSet()
	for i := range entries {
		entry := &entries[i]
		if !isOurs(entry, owner) && !isTheirs(entry, owner) {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(strings.NewReader(string(entry.FieldsV1.GetRawBytes()))); err != nil {
			return nil, nil, fmt.Errorf("cannot read the fields that are managed by %q: %w", entry.Manager, err)
		}
		if isOurs(entry, owner) {
			ours = ours.Union(set)
			continue
		}
		theirs = append(theirs, managed{entry.Manager, timeOf(entry), set})
	}
	slices.SortStableFunc(theirs, func(a, b managed) int { return b.at.Compare(a.at) })
	return theirs, ours, nil
}

// timeOf is when a manager wrote last; zero where nobody knows.
func timeOf(entry *metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.Time
}

// contentOf is an object as of JSON, each value spelt as its Go type spells it.
func contentOf(obj client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("cannot compare %s %q: %w", obj.GetObjectKind().GroupVersionKind().Kind,
			client.ObjectKeyFromObject(obj), err)
	}
	return content, nil
}

// concerns says whether a field is one that the engine decides: the spec, and labels.
func concerns(path fieldpath.Path) bool {
	first := path[0].FieldName
	switch {
	case first == nil:
		return false
	case *first == "metadata":
		return len(path) == 3 && path[1].FieldName != nil && *path[1].FieldName == "labels" &&
			*path[2].FieldName != platformv1.DomainLabel
	}
	return *first == "spec" && len(path) > 1
}

func (e Edit) inSpec() bool { return e.Path[0].FieldName != nil && *e.Path[0].FieldName == "spec" }
