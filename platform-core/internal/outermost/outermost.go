// SPDX-License-Identifier: Apache-2.0

// Package outermost changes the object that declares an Application: the typed object that it is made from, or the
// Application itself. Operations and edits of what the engine makes from an Application are written there, by the same
// rules: a kind says which of its fields each field comes from, what a GitOps tool owns is left alone, and a change
// that would be refused is not made.
package outermost

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// maxRefusals is how many refusals of a change are told at once.
const maxRefusals = 3

// editors are the field owners that Editors write under. What one of them wrote, somebody asked for here: nobody
// applies it again.
var editors = []string{"application", "component", "operation"}

// Editor changes outermost objects.
type Editor struct {
	// Client writes, and reads what a change is judged by.
	Client client.Client
	// Live reads the outermost object as it is.
	Live client.Reader
	// Index of the loaded plugins.
	Index *plugin.Index
	// Kinds that compile to Applications.
	Kinds map[schema.GroupKind]typed.Registration
	// Settings name the GitOps managers, and what pods would be rendered with.
	Settings *settings.Live
	// Domain that this operator serves.
	Domain string
	// Owner is the field owner of what is written: one of editors.
	Owner string
	// Cause says in words what brings a change about, for example "an Operation".
	Cause string
}

// Change is an edit of the outermost object that was thought through and not yet made.
type Change struct {
	Before, After *unstructured.Unstructured
	// Application that follows from it, nil where nothing changes, and the one that is there.
	Application, Live *platformv1.Application
	// Changed says in words what is different.
	Changed []string
	// Warnings deserve a word.
	Warnings []string
	// fields of the spec of the outermost object that are different.
	fields []string
}

// Write makes a change, unless the object has changed since that was thought through.
func (e Editor) Write(ctx context.Context, change *Change) error {
	patch := client.MergeFromWithOptions(change.Before, client.MergeFromWithOptimisticLock{})
	return e.Client.Patch(ctx, change.After, patch, client.FieldOwner(e.Owner))
}

// Warn tells whose fields the change has changed, on an object. Several events of one reason at once would be counted
// as one, with the words of the first.
func (ch *Change) Warn(events *event.Recorder, on client.Object) {
	if len(ch.Warnings) > 0 {
		events.Warning(on, eventOverwritten, "%s", strings.Join(ch.Warnings, "; "))
	}
}

// NameOf names the outermost object of an Application for a person.
func NameOf(app *platformv1.Application) string {
	if above := metav1.GetControllerOf(app); above != nil {
		return fmt.Sprintf("%s %q", above.Kind, above.Name)
	}
	return fmt.Sprintf("Application %q", app.Name)
}

// Think works out what an edit of an Application changes in the object that declares it, and says why it may not; it
// touches nothing.
func (e Editor) Think(ctx context.Context, app *platformv1.Application, edit *opsflow.Edit) (*Change, string, error) {
	before, kind, err := e.Read(ctx, app)
	if err != nil {
		return nil, "", err
	}
	return e.think(ctx, app, before, kind, edit)
}

// think is Think with the outermost object as it was read, and its kind.
func (e Editor) think(ctx context.Context, app *platformv1.Application, before *unstructured.Unstructured,
	kind typed.Registration, edit *opsflow.Edit) (*Change, string, error) {
	object := NameOf(app)
	ch := &Change{Before: before, After: before.DeepCopy(), Live: app}
	spec, ok := ch.After.Object["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Sprintf("%s has no spec", object), nil
	}
	if edit.Spec != nil {
		ch.After.Object["spec"] = edit.Spec
		for _, difference := range opsflow.Differences(spec, edit.Spec) {
			ch.Changed = append(ch.Changed, "spec."+difference)
		}
	}
	for _, field := range edit.Fields {
		if refusal := e.upgradable(ch.Live, field); refusal != "" {
			return nil, fmt.Sprintf("%s: %s", object, refusal), nil
		}
		if field.Field == opsflow.FieldPluginVersion && !declares(kind, field.Field) {
			ch.note(fmt.Sprint(field.Value))
			continue
		}
		if component := opsflow.SetCountOf(field.Field); component != "" && kind == nil {
			sets, err := opsflow.SetsOf(spec, component, field.Value.(int64))
			if err != nil {
				return nil, fmt.Sprintf("%s: %v", object, err), nil
			}
			field = opsflow.FieldEdit{Field: "components[" + component + "].sets", Value: sets}
		}
		name, value, err := source(kind, before.GetKind(), field)
		if err != nil {
			return nil, fmt.Sprintf("%s %v", object, err), nil
		}
		was, err := opsflow.SetField(spec, name, value)
		if err != nil {
			return nil, fmt.Sprintf("%s: %v", object, err), nil
		}
		if same(was, value) {
			_, _ = opsflow.SetField(spec, name, was)
			continue
		}
		ch.Changed = append(ch.Changed, fmt.Sprintf("spec.%s: %s → %s", opsflow.Plain(name), shown(was), shown(value)))
		ch.fields = append(ch.fields, name)
		if refusal := e.respect(ch, object, name, edit.Ownership); refusal != "" {
			return nil, refusal, nil
		}
	}
	if len(ch.Changed) == 0 {
		return ch, "", nil
	}
	refusal, err := e.judge(ctx, ch, kind)
	return ch, refusal, err
}

// source is the field of the outermost object that a field of the Application comes from, and the value that it has to
// have there.
func source(kind typed.Registration, kindName string, field opsflow.FieldEdit) (name string, value any, err error) {
	if kind == nil {
		return field.Field, field.Value, nil
	}
	name, ok := opsflow.WriteThrough(field.Field, kind.WriteThrough())
	if !ok {
		return "", nil, fmt.Errorf("has no field for %s: a %s does not offer that", opsflow.Plain(field.Field), kindName)
	}
	if field.Value == nil {
		return name, nil, nil
	}
	if value, err = kind.Convert(field.Field, field.Value); err != nil {
		return "", nil, fmt.Errorf("cannot have that: %w", err)
	}
	return name, value, nil
}

// declares says whether the outermost object has a field for one of the Application's.
func declares(kind typed.Registration, field string) bool {
	if kind == nil {
		return true
	}
	_, has := opsflow.WriteThrough(field, kind.WriteThrough())
	return has
}

// same compares a value that was there with one to set: a number of JSON is an int64 or a float64.
func same(was, wanted any) bool {
	return (was == nil) == (wanted == nil) && fmt.Sprint(was) == fmt.Sprint(wanted)
}

func shown(value any) string {
	if value == nil {
		return "none"
	}
	if sets, ok := value.([]any); ok {
		return fmt.Sprintf("%d of them", len(sets))
	}
	return fmt.Sprint(value)
}

// respect refuses to change what a GitOps tool owns, which would write it back, and warns about everybody else.
func (e Editor) respect(ch *Change, object, field string, ownership opsflow.Ownership) (refusal string) {
	field, path := opsflow.Plain(field), field
	entries := ch.Before.GetManagedFields()
	owners := opsflow.OwnersOf(entries, path, editors...)
	those := slices.Concat(owners, opsflow.FieldManagersOf(entries, path))
	if i := slices.IndexFunc(those, e.isRespected); i >= 0 && ownership != opsflow.OverrideOwner {
		return fmt.Sprintf("spec.%s of %s is managed by %s, which would write it back: change it where that gets it from, "+
			"or set force to change it here until its next synchronisation",
			field, object, those[i])
	}
	if len(owners) > 0 {
		ch.Warnings = append(ch.Warnings, fmt.Sprintf(
			"spec.%s, set by %s, was changed by %s: the next apply of %s reverts that unless it says the same",
			field, strings.Join(owners, " and "), e.Cause, strings.Join(owners, " or ")))
	}
	return ""
}

// isRespected says whether what a field owner owns is not changed here.
func (e Editor) isRespected(owner string) bool { return slices.Contains(e.Settings.Respected(), owner) }

// Read returns the outermost object that declares the Application, and its kind; nil when that is the Application
// itself. The error is a Refusal when it is of a kind that this operator does not serve.
func (e Editor) Read(ctx context.Context,
	app *platformv1.Application) (*unstructured.Unstructured, typed.Registration, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(platformv1.GroupVersion.WithKind("Application"))
	key := client.ObjectKeyFromObject(app)
	var kind typed.Registration
	if above := metav1.GetControllerOf(app); above != nil {
		gvk := schema.FromAPIVersionAndKind(above.APIVersion, above.Kind)
		object.SetGroupVersionKind(gvk)
		key.Name = above.Name
		kind = e.Kinds[gvk.GroupKind()]
		if kind == nil {
			return nil, nil, &opsflow.Refusal{Reason: opsflow.ReasonNotSupported, Message: fmt.Sprintf(
				"Application %q is controlled by %s %q, a kind that this operator does not serve: change that object, or remove "+
					"its owner reference from the Application",
				app.Name, gvk.GroupKind(), above.Name)}
		}
	}
	if err := e.Live.Get(ctx, key, object); err != nil {
		return nil, nil, err
	}
	return object, kind, nil
}

// judge says what the change would break, as the webhook does; empty for nothing.
func (e Editor) judge(ctx context.Context, ch *Change, kind typed.Registration) (string, error) {
	after, err := e.Compile(ch.After, kind, ch.Live)
	if err != nil {
		return err.Error(), nil
	}
	ch.Application = after
	facts, err := e.Facts(ctx, after)
	if err != nil {
		return "", err
	}
	verdict := accept.Judge(after, nil, func(*platformv1.Application) accept.Facts { return facts })
	var sentences []string
	for i, refusal := range verdict.Refused {
		if i == maxRefusals {
			sentences = append(sentences, fmt.Sprintf("and %d more", len(verdict.Refused)-i))
			break
		}
		sentences = append(sentences, refusal.Message)
	}
	return strings.Join(sentences, "; "), nil
}

// Facts reads what an Application is judged by.
func (e Editor) Facts(ctx context.Context, app *platformv1.Application) (accept.Facts, error) {
	facts, err := instance.Facts(ctx, e.Client, e.Live, app, e.Settings.Get())
	if err != nil {
		return facts, fmt.Errorf("cannot read what there is of Application %q: %w", app.Name, err)
	}
	facts.State, _ = e.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	return facts, nil
}

// Decode reads an object into its Go type by way of JSON: some fields take text or a number, which only their own
// decoding knows.
func Decode(object *unstructured.Unstructured, into client.Object) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Compile returns the Application that an outermost object declares, as the one that is there.
func (e Editor) Compile(object *unstructured.Unstructured, kind typed.Registration,
	live *platformv1.Application) (*platformv1.Application, error) {
	app := &platformv1.Application{}
	if kind == nil {
		if err := Decode(object, app); err != nil {
			return nil, err
		}
		return app, nil
	}
	source := kind.Object()
	if err := Decode(object, source); err != nil {
		return nil, err
	}
	out, err := kind.Compile(source, e.Domain)
	if err != nil {
		return nil, err
	}
	if out.Application == nil {
		return nil, fmt.Errorf("%s %q declares no Application", object.GetKind(), object.GetName())
	}
	app = out.Application
	app.UID, app.OwnerReferences, app.Status.Plugin = live.UID, live.OwnerReferences, live.Status.Plugin
	return app, nil
}
