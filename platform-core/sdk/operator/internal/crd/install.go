// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

const (
	// owner is the field owner of the definitions.
	owner = "crds"
	// look is how often a definition that is not there yet is looked at.
	look = 250 * time.Millisecond
	// remind is how often a wait is written to the log.
	remind = 10 * time.Second
)

// Mode says who brings the definitions.
type Mode string

// The modes.
const (
	// Install: this operator applies what is missing or older.
	Install Mode = "Install"
	// Await: an administrator does; this operator waits for it.
	Await Mode = "Await"
)

// Installer brings definitions into a cluster, or waits until they are there.
type Installer struct {
	// Client reads live objects; its scheme knows CustomResourceDefinition.
	Client client.Client
	// Mode says who brings the definitions.
	Mode Mode
	// Log tells what is applied and what is waited for.
	Log logr.Logger
}

// Ensure returns once every definition is in the cluster, at its revision or a
// higher one, established and known to discovery. It gives up with an error that
// names the definition when the context ends.
func (i *Installer) Ensure(ctx context.Context, definitions []Definition) error {
	for _, definition := range definitions {
		if err := i.await(ctx, definition); err != nil {
			return fmt.Errorf("cannot use CustomResourceDefinition %q: %w", definition.Name, err)
		}
	}
	return nil
}

func (i *Installer) await(ctx context.Context, definition Definition) error {
	missing := "it was never checked"
	reminded := time.Now()
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		now, err := i.step(ctx, definition)
		if ctx.Err() != nil {
			// Cut off in mid-look: what was missing before says more.
			return false, ctx.Err()
		}
		if missing = now; err != nil || missing == "" {
			return err == nil, err
		}
		if time.Since(reminded) > remind {
			reminded = time.Now()
			i.Log.Info("waiting for a CustomResourceDefinition", telemetry.KeyCRD, definition.Name, telemetry.KeyReason, missing)
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("gave up: %s", missing)
	}
	return err
}

// step does what can be done now and says what is still missing; "" for nothing.
func (i *Installer) step(ctx context.Context, definition Definition) (string, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := i.Client.Get(ctx, client.ObjectKey{Name: definition.Name}, live)
	if apierrors.IsForbidden(err) {
		return "", err
	}
	if client.IgnoreNotFound(err) != nil {
		return err.Error(), nil
	}
	if err != nil {
		live = nil
	}
	action, err := decide(live, definition.Revision, i.Mode)
	if err != nil {
		return "", err
	}
	switch action {
	case actionApply:
		return "it was just applied", i.apply(ctx, live, definition)
	case actionAwaitAdministrator:
		return fmt.Sprintf("an administrator has to apply revision %d or higher of it, since --install-crds is off",
			definition.Revision), nil
	case actionAwaitServer:
		return "the server does not serve it yet", nil
	default:
		return i.discovered(definition), nil
	}
}

// action is what is to be done about one definition.
type action string

const (
	actionApply              action = "apply"
	actionAwaitAdministrator action = "await the administrator"
	actionAwaitServer        action = "await the server"
	actionUse                action = "use"
)

// decide compares the live definition, nil when there is none, with the revision that is embedded.
func decide(live *apiextensionsv1.CustomResourceDefinition, revision int, mode Mode) (action, error) {
	current := 0
	if live != nil {
		var err error
		if current, err = RevisionOf(live); err != nil {
			return "", err
		}
	}
	switch {
	case (live == nil || current < revision) && mode == Install:
		return actionApply, nil
	case live == nil || current < revision:
		return actionAwaitAdministrator, nil
	case refusal(live) != "":
		return "", fmt.Errorf("the server refuses it: %s", refusal(live))
	case !isEstablished(live):
		return actionAwaitServer, nil
	default:
		return actionUse, nil
	}
}

// apply writes a definition over the live one that was compared, or makes it. That
// someone else was quicker is fine: the next look compares again.
func (i *Installer) apply(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition,
	definition Definition) error {
	var err error
	if live == nil {
		err = i.Client.Create(ctx, definition.DeepCopy(), client.FieldOwner(owner))
	} else {
		err = i.replace(ctx, live.ResourceVersion, definition)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot apply revision %d: %w", definition.Revision, err)
	}
	i.Log.Info("applied a CustomResourceDefinition", telemetry.KeyCRD, definition.Name, telemetry.KeyRevision,
		definition.Revision)
	return nil
}

func (i *Installer) replace(ctx context.Context, resourceVersion string, definition Definition) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition.CustomResourceDefinition)
	if err != nil {
		return err
	}
	body := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(body.Object, "status")
	unstructured.RemoveNestedField(body.Object, "metadata", "creationTimestamp")
	body.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	body.SetResourceVersion(resourceVersion)
	return i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(owner),
		client.ForceOwnership)
}

// discovered says what is missing until clients can address the kind.
func (i *Installer) discovered(definition Definition) string {
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		kind := schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}
		if _, err := i.Client.RESTMapper().RESTMapping(kind, version.Name); err != nil {
			if meta.IsNoMatchError(err) {
				return "discovery does not list it yet"
			}
			return err.Error()
		}
	}
	return ""
}
