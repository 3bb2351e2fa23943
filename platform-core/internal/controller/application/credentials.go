// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	agentplan "github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Keys of the Secrets that the engine makes for credentials.
const (
	usernameKey = "username"
	passwordKey = plugin.SecretKeyPassword
	databaseKey = "database"
	alsoKey     = plugin.SecretKeyAlso
	revisionKey = agentplan.RevisionFile
)

// ensureCredentials keeps the Secret that the pods mount for each credential. A password that the user does not supply
// is generated once: a crash between two turns finds it again. Password and revision change together, so that a pod
// that has the revision has the password.
func (c *Controller) ensureCredentials(ctx context.Context, app *platformv1.Application, f *facts) error {
	for _, declared := range f.credentialsOf() {
		if f.revisions[declared.Name] != "" {
			continue
		}
		password := f.passwords[declared.Name]
		if password == "" {
			password = instance.NewPassword(declared)
		}
		next := f.handovers[declared.Name]
		revision := c.revision(app, declared.Name, password, next.also)
		wanted := &corev1.Secret{
			ObjectMeta: meta(app, platformv1.CredentialNameFor(app.Name, declared.Name), ""),
			Type:       corev1.SecretTypeBasicAuth,
			Data: map[string][]byte{usernameKey: []byte(declared.Username), passwordKey: []byte(password),
				revisionKey: []byte(revision)},
		}
		if next.also != "" {
			wanted.Data[alsoKey] = []byte(next.also)
		}
		wanted.Annotations = map[string]string{}
		if next.phase != "" {
			wanted.Annotations[platformv1.HandoverAnnotation] = next.phase
		}
		if reference, users := f.suppliedFor(declared.Name); users {
			wanted.Annotations[platformv1.PasswordFromAnnotation] = reference.Name + "/" + cmp.Or(reference.Key, passwordKey)
		}
		made, err := c.ensureCredential(ctx, app, f.credentials[declared.Name], wanted)
		if err != nil {
			return err
		}
		if made {
			f.passwords[declared.Name], f.revisions[declared.Name] = password, revision
		}
	}
	return nil
}

// credentialsOf the instance: those that only a user can supply are there when he names a Secret.
func (f *facts) credentialsOf() []schema.Credential {
	return slices.DeleteFunc(slices.Clone(f.state.Bundle.Components.Credentials), func(c schema.Credential) bool {
		_, supplied := f.suppliedFor(c.Name)
		return c.Supplied && !supplied
	})
}

// ensureCredential says whether the Secret is as wanted now. One that the cache does not have yet is left alone.
func (c *Controller) ensureCredential(ctx context.Context, app *platformv1.Application, have, wanted *corev1.Secret) (
	bool, error) {
	if have == nil {
		if err := controllerutil.SetControllerReference(app, wanted, c.client.Scheme()); err != nil {
			return false, err
		}
		change, err := c.apply.Create(ctx, wanted)
		return change == apply.Created, err
	}
	same, annotations := true, map[string]any{}
	for _, key := range []string{platformv1.PasswordFromAnnotation, platformv1.HandoverAnnotation} {
		annotations[key] = nil
		if value := wanted.Annotations[key]; value != "" {
			annotations[key] = value
		}
		same = same && have.Annotations[key] == wanted.Annotations[key]
	}
	for key, value := range wanted.Data {
		same = same && string(have.Data[key]) == string(value)
	}
	if same {
		return true, nil
	}
	if password := string(wanted.Data[passwordKey]); password != string(have.Data[passwordKey]) &&
		password != string(have.Data[alsoKey]) {
		// What an Operation had made anew is not there any more.
		annotations[platformv1.RotatedAnnotation] = nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": have.ResourceVersion, // what somebody else has just put there is not overwritten unseen
			"annotations":     annotations,
		},
		"data": wanted.Data,
	})
	if err != nil {
		return false, err
	}
	patched := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: have.Namespace, Name: have.Name}}
	return true, c.client.Patch(ctx, patched, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
}

// ensureBinding applies the Secret after the Service Binding specification, once password and endpoints are known.
func (c *Controller) ensureBinding(ctx context.Context, app *platformv1.Application, f *facts) error {
	bundle := f.state.Bundle
	binding := bundle.Binding(app.Spec.Topology)
	if binding == nil || f.components[binding.Component] == nil {
		return nil
	}
	if binding.External != nil {
		return c.ensureExternalBinding(ctx, app, f, binding)
	}
	login := render.Login{Password: f.passwords[binding.Credential], Database: binding.Database}
	if declared, ok := bundle.Credential(binding.Credential); ok {
		login.Username = declared.Username
	}
	if binding.Credential != "" && login.Password == "" {
		return nil
	}
	login, err := c.bound(ctx, app, f, login)
	if err != nil {
		return err
	}
	ca, known := f.ca(binding.Component)
	if !known {
		// The Secret with it wakes us.
		return nil
	}
	var endpoints []platformv1.Endpoint
	for _, component := range f.components {
		endpoints = append(endpoints, component.Status.Endpoints...)
	}
	data := render.Binding(bundle, app.Name, app.Spec.Topology, endpoints, login, ca)
	return c.applyBinding(ctx, app, binding, data)
}

// ensureExternalBinding applies the Secret of what is not in the pods. Keys of an account elsewhere count from the
// moment that the user has them, so that nobody waits for the pods to take them over.
func (c *Controller) ensureExternalBinding(ctx context.Context, app *platformv1.Application, f *facts,
	binding *schema.Binding) error {
	external := binding.External
	account, password, ca := f.passwords[external.Account], f.passwords[binding.Credential], f.passwords[external.CA]
	if account == "" || password == "" || ca == "" && app.Spec.Supplies(external.CA) {
		// The Secret with it wakes us.
		return nil
	}
	endpoint := string(f.components[binding.Component].Spec.Parameters[external.Endpoint])
	return c.applyBinding(ctx, app, binding, render.ExternalBinding(binding, endpoint, account, password, []byte(ca)))
}

func (c *Controller) applyBinding(ctx context.Context, app *platformv1.Application, binding *schema.Binding,
	data map[string][]byte) error {
	if data == nil {
		return nil
	}
	_, err := c.applyOwned(ctx, app, &corev1.Secret{
		ObjectMeta: meta(app, platformv1.BindingNameFor(app.Name), ""),
		Type:       render.BindingSecretType(binding),
		Data:       data,
	})
	return err
}

// bound is the login to hand out to clients: the one before, as long as the processes may still know that alone. That
// of another plugin version can have another username and another database.
func (c *Controller) bound(ctx context.Context, app *platformv1.Application, f *facts, login render.Login,
) (render.Login, error) {
	binding := f.state.Bundle.Binding(app.Spec.Topology)
	if binding.Credential == "" || f.handovers[binding.Credential].phase == platformv1.HandoverRetires ||
		f.tookOver(binding.Component, binding.Credential) {
		return login, nil
	}
	have := &corev1.Secret{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: platformv1.BindingNameFor(app.Name)}, have)
	if apierrors.IsNotFound(err) {
		return login, nil
	}
	if err != nil || len(have.Data[passwordKey]) == 0 {
		return login, err
	}
	return render.Login{
		Username: string(have.Data[usernameKey]), Password: string(have.Data[passwordKey]),
		Database: string(have.Data[databaseKey]),
	}, nil
}

// tookOver says whether all pods of a component run with the present password of a credential.
func (f *facts) tookOver(name, credential string) bool {
	component := f.components[name]
	if component == nil || slices.Contains(f.written, name) || conditions.Outcome(component).Kind() != outcome.KindDone {
		return false
	}
	return slices.ContainsFunc(component.Spec.Credentials, func(c platformv1.ComponentCredential) bool {
		return c.Name == credential && c.Revision == f.revisions[credential]
	})
}
