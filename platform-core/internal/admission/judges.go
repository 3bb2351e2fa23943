// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// court judges by what the caches and the index hold. It calls nobody, but for an object whose absence in the cache
// is to refuse a change.
type court struct {
	domain   string
	index    *plugin.Index
	settings *settings.Live
	seen     client.Reader
	// live reads from the API server.
	live   client.Reader
	scheme *runtime.Scheme
}

// core judges an object of the engine.
func (c *court) core(ctx context.Context, request *admissionv1.AdmissionRequest) (accept.Verdict, error) {
	switch request.Kind.Kind {
	case "Entity":
		return c.entity(ctx, request)
	case "Operation":
		return c.operation(request)
	}
	return c.application(ctx, request)
}

// operation judges an Operation that this operator would run, when it is created. Its template never changes: a change
// cancels, suspends or approves, and nothing holds that up.
func (c *court) operation(request *admissionv1.AdmissionRequest) (accept.Verdict, error) {
	if len(request.OldObject.Raw) > 0 {
		return accept.Verdict{}, nil
	}
	op := &platformv1.Operation{}
	if _, err := objects(request, op, &platformv1.Operation{}); err != nil {
		return accept.Verdict{}, err
	}
	if cmp.Or(op.Labels[platformv1.DomainLabel], opsflow.InlineDomain) != c.domain {
		return accept.Verdict{}, nil
	}
	return accept.JudgeOperation(op), nil
}

// entity judges an Entity of an Application that this operator serves; of one that it does not, another operator may
// know more.
func (c *court) entity(ctx context.Context, request *admissionv1.AdmissionRequest) (accept.Verdict, error) {
	entity, old := &platformv1.Entity{}, &platformv1.Entity{}
	changed, err := objects(request, entity, old)
	if err != nil {
		return accept.Verdict{}, err
	}
	if !changed {
		old = nil
	}
	if domain := entity.Labels[platformv1.DomainLabel]; domain != "" && domain != c.domain {
		return accept.Verdict{}, nil
	}
	app := &platformv1.Application{}
	err = c.seen.Get(ctx, client.ObjectKey{Namespace: entity.Namespace, Name: entity.Spec.ApplicationRef.Name}, app)
	if apierrors.IsNotFound(err) {
		// It may be another operator's.
		return accept.Verdict{}, nil
	}
	if err != nil {
		return accept.Verdict{}, err
	}
	state, _ := c.index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	return accept.JudgeEntity(entity, old, app, state), nil
}

// application judges an Application that a user or a GitOps manager writes.
func (c *court) application(ctx context.Context, request *admissionv1.AdmissionRequest) (accept.Verdict, error) {
	app, old := &platformv1.Application{}, &platformv1.Application{}
	changed, err := objects(request, app, old)
	if err != nil {
		return accept.Verdict{}, err
	}
	switch domain := app.Labels[platformv1.DomainLabel]; {
	case domain != "" && domain != c.domain:
		return accept.Verdict{}, nil
	case domain == "" && !c.has(app):
		return c.unclaimed(ctx, app)
	}
	if !changed {
		old = nil
	}
	return c.judge(ctx, app, old)
}

// has says whether this operator is the one that would claim an Application.
func (c *court) has(app *platformv1.Application) bool {
	state, known := c.index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	return known && state.Bundle != nil
}

// unclaimed speaks of an Application without a domain whose plugin this operator does not have. Every operator is
// asked; where none has it, all say the same, which the API server tells the user once.
func (c *court) unclaimed(ctx context.Context, app *platformv1.Application) (accept.Verdict, error) {
	err := c.seen.Get(ctx, client.ObjectKey{Name: app.Spec.Plugin + "-" +
		platformv1.CanonicalPluginVersion(app.Spec.PluginVersion)}, &platformv1.Plugin{})
	if !apierrors.IsNotFound(err) {
		return accept.Verdict{}, err
	}
	return accept.Verdict{Warnings: []string{fmt.Sprintf(
		"it will wait: no operator has plugin %s version %s: see kubectl get plugins", app.Spec.Plugin,
		app.Spec.PluginVersion)}}, nil
}

// judge gathers what is known and decides.
func (c *court) judge(ctx context.Context, app, old *platformv1.Application) (accept.Verdict, error) {
	known, err := instance.Facts(ctx, c.seen, nil, app, c.settings.Get())
	if err != nil {
		return accept.Verdict{}, err
	}
	return accept.Judge(app, old, func(of *platformv1.Application) accept.Facts {
		f := known
		f.State, _ = c.index.Get(of.Spec.Plugin, of.Spec.PluginVersion)
		return f
	}), nil
}

// judge judges an object by what it says alone.
func (k Check) judge(_ context.Context, request *admissionv1.AdmissionRequest) (accept.Verdict, error) {
	object, before := k.Object(), k.Object()
	changed, err := objects(request, object, before)
	if err != nil || object.GetDeletionTimestamp() != nil {
		return accept.Verdict{}, err
	}
	var was error
	if changed {
		was = k.Judge(before)
	}
	return compared(k.Judge(object), was), nil
}

// compared is the verdict on what is refused now and was before: what was refused before keeps a change from nothing.
func compared(refused, was error) accept.Verdict {
	switch {
	case refused == nil:
		return accept.Verdict{}
	case was != nil && refused.Error() == was.Error():
		return accept.Verdict{Warnings: []string{accept.Still(refused.Error())}}
	}
	return accept.Verdict{Refused: []*render.Refusal{{Reason: platformv1.ReasonInvalidSpec, Message: refused.Error()}}}
}

// typed returns the judge of a typed kind: what an object compiles to is judged, beside what has become of it so far.
func (c *court) typed(kind typed.Registration) judge {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (accept.Verdict, error) {
		object, before := kind.Object(), kind.Object()
		changed, err := objects(request, object, before)
		if err != nil || object.GetDeletionTimestamp() != nil {
			return accept.Verdict{}, err
		}
		if changed {
			from := livereader.Reader{Cached: c.seen, Live: c.live}
			if refusal, err := kind.JudgeChange(ctx, from, c.scheme, before, object); err != nil || refusal != nil {
				return refusedChange(refusal), err
			}
		}
		out, refused := kind.Compile(object, c.domain)
		old := &typed.Output{}
		var was error
		if changed {
			old, was = kind.Compile(before, c.domain)
		}
		if refused != nil {
			return compared(refused, was), nil
		}
		if was != nil {
			old = &typed.Output{}
		}
		if out.Application == nil {
			// There is no instance to judge, and what is inside another one is judged with that.
			return accept.Verdict{}, nil
		}
		if err := c.identify(ctx, object, out.Application, old.Application); err != nil {
			return accept.Verdict{}, err
		}
		verdict, err := c.judge(ctx, out.Application, old.Application)
		if err != nil {
			return accept.Verdict{}, err
		}
		state, _ := c.index.Get(out.Application.Spec.Plugin, out.Application.Spec.PluginVersion)
		return verdict.And(accept.JudgeInside(out.Entities, old.Entities, out.Application, state)), nil
	}
}

// refusedChange is the verdict on a change that the present state of other objects does not allow; none for nil.
func refusedChange(refusal *typed.Refusal) accept.Verdict {
	if refusal == nil {
		return accept.Verdict{}
	}
	return accept.Verdict{Refused: []*render.Refusal{{Reason: refusal.Reason, Message: refusal.Message}}}
}

// identify has a compiled Application be the one that is there, if it is this object's.
func (c *court) identify(ctx context.Context, object client.Object, compiled ...*platformv1.Application) error {
	live := &platformv1.Application{}
	err := c.seen.Get(ctx, client.ObjectKeyFromObject(compiled[0]), live)
	if err != nil || !metav1.IsControlledBy(live, object) {
		return client.IgnoreNotFound(err)
	}
	for _, app := range compiled {
		if app != nil {
			app.UID, app.Status.Plugin, app.Status.RestoredFrom = live.UID, live.Status.Plugin, live.Status.RestoredFrom
		}
	}
	return nil
}
