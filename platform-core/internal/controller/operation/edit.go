// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// maxRefusals is how many refusals of a change are told at once.
const maxRefusals = 3

// change is an edit of the outermost object that was thought through and not yet made.
type change struct {
	before, after *unstructured.Unstructured
	// application that follows from it, and the one that is there.
	application, live *platformv1.Application
	// changed says in words what is different.
	changed []string
	// warnings deserve a word.
	warnings []string
}

// edit changes the object that declares what the Application is to be. It says which generation has the change, also when it was there already.
func (c *Controller) edit(ctx context.Context, seen *observation, edit *opsflow.Edit) (*opsflow.Answer, error) {
	change, refusal, err := c.think(ctx, seen, edit)
	switch {
	case apierrors.IsNotFound(err):
		// The cache is yet to hear of that: a run ends with its target then, and no step of it has failed.
		return &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: fmt.Sprintf("%s is gone", seen.facts.Declared.Object)}, nil
	case err != nil:
		return nil, err
	case refusal != "":
		return &opsflow.Answer{Failure: opsflow.FailureRefused, Problem: refusal}, nil
	}
	outputs := map[string]string{opsflow.OutputChanged: strings.Join(change.changed, ", ")}
	if len(change.changed) > 0 {
		patch := client.MergeFromWithOptions(change.before, client.MergeFromWithOptimisticLock{})
		err := c.client.Patch(ctx, change.after, patch, client.FieldOwner(owner))
		switch {
		case apierrors.IsConflict(err):
			return &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: "somebody else changed it at the same time"}, nil
		case refused(err):
			return refuse("%s cannot be changed: %v", seen.facts.Declared.Object, err), nil
		case err != nil:
			return nil, fmt.Errorf("cannot change %s: %w", seen.facts.Declared.Object, err)
		}
		for _, warning := range change.warnings {
			c.events.Warning(change.live, eventOverwritten, "%s", warning)
		}
	}
	outputs[opsflow.OutputGeneration] = strconv.FormatInt(change.after.GetGeneration(), 10)
	return &opsflow.Answer{Outputs: outputs}, nil
}

func refuse(message string, args ...any) *opsflow.Answer {
	return &opsflow.Answer{Failure: opsflow.FailureRefused, Problem: fmt.Sprintf(message, args...)}
}

// think works out what an edit changes, and whether it may; it touches nothing.
func (c *Controller) think(ctx context.Context, seen *observation, edit *opsflow.Edit) (*change, string, error) {
	before, kind, err := c.declared(ctx, seen)
	if err != nil {
		return nil, "", err
	}
	ch := &change{before: before, after: before.DeepCopy(), live: seen.facts.Application}
	spec, ok := ch.after.Object["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Sprintf("%s has no spec", seen.facts.Declared.Object), nil
	}
	if edit.Spec != nil {
		ch.after.Object["spec"] = edit.Spec
		for _, difference := range opsflow.Differences(spec, edit.Spec) {
			ch.changed = append(ch.changed, "spec."+difference)
		}
	}
	for _, field := range edit.Fields {
		if refusal := c.upgradable(ch.live, field); refusal != "" {
			return nil, fmt.Sprintf("%s: %s", seen.facts.Declared.Object, refusal), nil
		}
		if field.Field == opsflow.FieldPluginVersion && !declares(kind, field.Field) {
			ch.note(fmt.Sprint(field.Value))
			continue
		}
		name, value, err := source(kind, before.GetKind(), field)
		if err != nil {
			return nil, fmt.Sprintf("%s %v", seen.facts.Declared.Object, err), nil
		}
		was, err := opsflow.SetField(spec, name, value)
		if err != nil {
			return nil, fmt.Sprintf("%s: %v", seen.facts.Declared.Object, err), nil
		}
		if same(was, value) {
			_, _ = opsflow.SetField(spec, name, was)
			continue
		}
		ch.changed = append(ch.changed, fmt.Sprintf("spec.%s: %s → %v", name, shown(was), value))
		if refusal := ch.respect(seen.facts.Declared.Object, name, edit.Ownership, c.Settings.Respected()); refusal != "" {
			return nil, refusal, nil
		}
	}
	if len(ch.changed) == 0 {
		return ch, "", nil
	}
	refusal, err := c.judge(ctx, ch, kind)
	return ch, refusal, err
}

// source is the field of the outermost object that a field of the Application comes from, and the value that it has to have there.
func source(kind typed.Registration, kindName string, field opsflow.FieldEdit) (name string, value any, err error) {
	if kind == nil {
		return field.Field, field.Value, nil
	}
	name, ok := opsflow.WriteThrough(field.Field, kind.WriteThrough())
	if !ok {
		return "", nil, fmt.Errorf("has no field for %s: a %s does not offer that", field.Field, kindName)
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
	return was != nil && fmt.Sprint(was) == fmt.Sprint(wanted)
}

func shown(value any) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprint(value)
}

// respect refuses to change what a GitOps tool owns, which would write it back, and warns about everybody else.
func (ch *change) respect(object, field string, ownership opsflow.Ownership, gitOps []string) (refusal string) {
	for _, manager := range opsflow.OwnersOf(ch.before.GetManagedFields(), field, owner) {
		if slices.Contains(gitOps, manager) && ownership != opsflow.OverrideOwner {
			return fmt.Sprintf("spec.%s of %s is managed by %s, which would write it back: change it where that gets it from, or set force to change it here until its next synchronisation",
				field, object, manager)
		}
		ch.warnings = append(ch.warnings, fmt.Sprintf("spec.%s, set by %s, was changed by an Operation: the next apply of %s reverts that unless it says the same", field, manager, manager))
	}
	return ""
}

// declared reads the outermost object that declares the Application, and its kind; nil when that is the Application itself. The error is a
// Refusal when it is of a kind that this operator does not serve.
func (c *Controller) declared(ctx context.Context, seen *observation) (*unstructured.Unstructured, typed.Registration, error) {
	app := seen.facts.Application
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(platformv1.GroupVersion.WithKind("Application"))
	key := client.ObjectKeyFromObject(app)
	var kind typed.Registration
	if above := metav1.GetControllerOf(app); above != nil {
		gvk := schema.FromAPIVersionAndKind(above.APIVersion, above.Kind)
		object.SetGroupVersionKind(gvk)
		key.Name = above.Name
		kind = c.Kinds[gvk.GroupKind()]
		if kind == nil {
			return nil, nil, &opsflow.Refusal{Reason: opsflow.ReasonNotSupported, Message: fmt.Sprintf(
				"Application %q is controlled by %s %q, a kind that this operator does not serve: change that object, or remove its owner reference from the Application",
				app.Name, gvk.GroupKind(), above.Name)}
		}
	}
	if err := c.live.Get(ctx, key, object); err != nil {
		return nil, nil, err
	}
	return object, kind, nil
}

// judge says what the change would break, as the webhook does; empty for nothing.
func (c *Controller) judge(ctx context.Context, ch *change, kind typed.Registration) (string, error) {
	after, err := c.compile(ch.after, kind, ch.live)
	if err != nil {
		return err.Error(), nil
	}
	ch.application = after
	facts, err := c.accepts(ctx, after)
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

// accepts reads what an Application is judged by.
func (c *Controller) accepts(ctx context.Context, app *platformv1.Application) (accept.Facts, error) {
	facts, err := instance.Facts(ctx, c.client, app, c.Settings.Get())
	if err != nil {
		return facts, fmt.Errorf("cannot read what there is of Application %q: %w", app.Name, err)
	}
	facts.State, _ = c.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	return facts, nil
}

// decode reads an object into its Go type by way of JSON: some fields take text or a number, which only their own decoding knows.
func decode(object *unstructured.Unstructured, into client.Object) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// compile returns the Application that an outermost object declares, as the one that is there.
func (c *Controller) compile(object *unstructured.Unstructured, kind typed.Registration, live *platformv1.Application) (*platformv1.Application, error) {
	app := &platformv1.Application{}
	if kind == nil {
		if err := decode(object, app); err != nil {
			return nil, err
		}
		return app, nil
	}
	source := kind.Object()
	if err := decode(object, source); err != nil {
		return nil, err
	}
	app, err := kind.Compile(source, c.Domain)
	if err != nil {
		return nil, err
	}
	app.UID, app.Status.Plugin = live.UID, live.Status.Plugin
	return app, nil
}
