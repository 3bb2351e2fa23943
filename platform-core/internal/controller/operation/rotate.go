// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentplan "github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// rotate makes the password of a credential anew, unless that was done for this key, and says in Problem what it waits
// for; nothing once every process has it and clients are told. The password and the key are written at once: a crash
// makes no second one.
func (c *Controller) rotate(ctx context.Context, seen *observation, effect *opsflow.Effect) (*opsflow.Answer, error) {
	app, name := seen.facts.Application, effect.Rotation.Credential
	pinned := opsflow.PinnedTo(app)
	state, _ := c.Index.Get(pinned.Name, pinned.Version)
	if state.Bundle == nil {
		return refuse("plugin %q version %q is not loaded: install it again", pinned.Name, pinned.Version), nil
	}
	declared, ok := state.Bundle.Credential(name)
	if !ok {
		return refuse("plugin %q has no credential %q", pinned.Name, name), nil
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: app.Namespace, Name: platformv1.CredentialNameFor(app.Name, name)}
	err := c.live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return &opsflow.Answer{Problem: fmt.Sprintf("Secret %q to be made", key.Name)}, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read Secret %q: %w", key, err)
	case !metav1.IsControlledBy(secret, app):
		return refuse("Secret %q is not of Application %q", key.Name, app.Name), nil
	case secret.Annotations[platformv1.RotatedAnnotation] != effect.Key:
		if phase := secret.Annotations[platformv1.HandoverAnnotation]; phase != "" {
			return &opsflow.Answer{Problem: fmt.Sprintf("another password of credential %q to be taken over before", name)}, nil
		}
		manner, err := c.mannerOf(ctx, app, state.Bundle.In(app.Spec.Topology), declared)
		if err != nil {
			return nil, err
		}
		return c.renew(ctx, secret, effect.Key, declared, manner)
	}
	return c.tookOver(ctx, seen, state.Bundle, name, secret)
}

// credentialsOf are the credentials that an instance has, without what is known of now.
func credentialsOf(app *platformv1.Application, bundle *plugin.Bundle) []opsflow.Credential {
	var all []opsflow.Credential
	for _, declared := range bundle.Components.Credentials {
		if declared.Supplied && !app.Spec.Supplies(declared.Name) {
			continue
		}
		credential := opsflow.Credential{Name: declared.Name}
		for _, supplied := range app.Spec.Credentials {
			if supplied.Name == declared.Name {
				credential.Supplied = supplied.PasswordFrom.Name
			}
		}
		all = append(all, credential)
	}
	return all
}

// observePasswords finds out which passwords processes take over beside the one before, for a template that makes some
// anew.
func (c *Controller) observePasswords(ctx context.Context, seen *observation) error {
	if seen.bundle == nil || !seen.facts.Runs(opsflow.Rotates) {
		return nil
	}
	for i := range seen.facts.Credentials {
		credential := &seen.facts.Credentials[i]
		declared, _ := seen.bundle.Credential(credential.Name)
		manner, err := c.mannerOf(ctx, seen.facts.Application, seen.bundle, declared)
		if err != nil {
			return err
		}
		credential.Shared = manner == beside
	}
	return nil
}

// manner in which processes take over another password.
type manner int

const (
	// atOnce has each go from one password to the other.
	atOnce manner = iota
	// beside has all know both for a while, since they log in at each other.
	beside
)

func (c *Controller) mannerOf(ctx context.Context, app *platformv1.Application, bundle *plugin.Bundle,
	declared *schema.Credential) (manner, error) {
	if !accept.IsShared(declared, app.Spec.Topology) {
		return atOnce, nil
	}
	wanted, refusal := render.Components(bundle, app)
	if refusal != nil {
		// What cannot be rendered runs as it did.
		return beside, nil
	}
	list, err := c.componentsOf(ctx, app)
	if err != nil {
		return atOnce, err
	}
	components := map[string]*platformv1.Component{}
	for i := range list {
		components[list[i].Spec.Component] = &list[i]
	}
	if accept.Password(declared, app.Spec.Topology, components, wanted) != nil {
		return beside, nil
	}
	return atOnce, nil
}

func (c *Controller) componentsOf(ctx context.Context, app *platformv1.Application) ([]platformv1.Component, error) {
	var list platformv1.ComponentList
	if err := c.client.List(ctx, &list, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
		return nil, fmt.Errorf("cannot list the Components of Application %q: %w", app.Name, err)
	}
	return list.Items, nil
}

// renew writes a new password: in the place of the one before, or as what processes are to accept as well.
func (c *Controller) renew(ctx context.Context, secret *corev1.Secret, key string, declared *schema.Credential,
	how manner) (*opsflow.Answer, error) {
	if from := secret.Annotations[platformv1.PasswordFromAnnotation]; from != "" {
		return refuse("the password of credential %q comes from %s: change it there, and the instance takes it over",
			declared.Name, from), nil
	}
	annotations := map[string]any{platformv1.RotatedAnnotation: key,
		platformv1.RotatedFromAnnotation: string(secret.Data[agentplan.RevisionFile])}
	place := plugin.SecretKeyPassword
	if how == beside {
		place, annotations[platformv1.HandoverAnnotation] = plugin.SecretKeyAlso, platformv1.HandoverIntroduces
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": secret.ResourceVersion, // what somebody else has just put there is not overwritten unseen
			"annotations":     annotations,
		},
		"data": map[string][]byte{place: []byte(instance.NewPassword(*declared))},
	})
	if err != nil {
		return nil, err
	}
	err = c.client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	switch {
	case apierrors.IsConflict(err):
		return &opsflow.Answer{Failure: opsflow.FailureUnreachable, Problem: "it was changed at the same time"}, nil
	case refused(err):
		return refuse("Secret %q cannot be changed: %v", secret.Name, err), nil
	case err != nil:
		return nil, fmt.Errorf("cannot change Secret %q: %w", secret.Name, err)
	}
	return &opsflow.Answer{Problem: fmt.Sprintf("the new password of credential %q to be taken up", declared.Name)}, nil
}

// tookOver says what a new password waits for.
func (c *Controller) tookOver(ctx context.Context, seen *observation, bundle *plugin.Bundle, name string,
	secret *corev1.Secret) (*opsflow.Answer, error) {
	app, revision := seen.facts.Application, string(secret.Data[agentplan.RevisionFile])
	waits := func(format string, args ...any) (*opsflow.Answer, error) {
		return &opsflow.Answer{Problem: fmt.Sprintf(format, args...)}, nil
	}
	if revision == secret.Annotations[platformv1.RotatedFromAnnotation] {
		return waits("the new password of credential %q to be taken up", name)
	}
	components, err := c.componentsOf(ctx, app)
	if err != nil {
		return nil, err
	}
	how := roundOf(secret)
	for i := range components {
		component := &components[i]
		for _, credential := range component.Spec.Credentials {
			if credential.Name != name {
				continue
			}
			if credential.Revision != revision {
				return waits("component %s to take up the new password of credential %q%s", component.Spec.Component, name, how)
			}
			if o := conditions.Outcome(component); o.Kind() != outcome.KindDone {
				return &opsflow.Answer{Reason: o.Reason(), Problem: fmt.Sprintf(
					"the processes of component %s to run with the new password of credential %q%s: %s", component.Spec.Component,
					name, how, o.Message())}, nil
			}
		}
	}
	if how != "" {
		return waits("the next round with the new password of credential %q%s", name, how)
	}
	return c.told(ctx, app, bundle, name, secret)
}

// roundOf says how far a password is that takes the place of another one step by step; "" in the last round, and where
// it does so at once.
func roundOf(secret *corev1.Secret) string {
	switch secret.Annotations[platformv1.HandoverAnnotation] {
	case platformv1.HandoverIntroduces:
		return " (round 1 of 3: all are to accept it beside the one before)"
	case platformv1.HandoverRetires:
		return " (round 2 of 3: all are to show it to each other)"
	}
	return ""
}

// told waits until the Secret that clients read has the new password.
func (c *Controller) told(ctx context.Context, app *platformv1.Application, bundle *plugin.Bundle, name string,
	secret *corev1.Secret) (*opsflow.Answer, error) {
	if binding := bundle.Binding(app.Spec.Topology); binding == nil || binding.Credential != name {
		return &opsflow.Answer{}, nil
	}
	bound := &corev1.Secret{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: platformv1.BindingNameFor(app.Name)}, bound)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cannot read the binding of Application %q: %w", app.Name, err)
	}
	if string(bound.Data[plugin.SecretKeyPassword]) != string(secret.Data[plugin.SecretKeyPassword]) {
		return &opsflow.Answer{Problem: fmt.Sprintf("Secret %q to tell clients", platformv1.BindingNameFor(app.Name))}, nil
	}
	return &opsflow.Answer{}, nil
}
