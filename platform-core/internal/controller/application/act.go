// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/frame"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Keys of the Secrets that the engine makes for credentials.
const (
	usernameKey = "username"
	passwordKey = "password"
)

// defaultPasswordLength is the number of characters of a generated password: at 5 bits each, 160 bits.
const defaultPasswordLength = 32

// act makes the credentials, then the Components, then the binding, and removes Components that are no longer wanted.
func (c *Controller) act(ctx context.Context, app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec) outcome.Outcome {
	if err := c.ensureCredentials(ctx, app, f); err != nil {
		return apply.Outcome(err)
	}
	if err := c.ensureAuthority(ctx, app, f); err != nil {
		return apply.Outcome(err)
	}
	revision, known := c.credentialsRevision(app, f)
	if !known {
		// Another replica or an earlier turn made one, and the cache does not have it yet.
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, "credentials are being made")
	}
	var err error
	names := map[string]bool{}
	for i := range wanted {
		if err != nil {
			break
		}
		wanted[i].CredentialsRevision = revision
		names[wanted[i].Component] = true
		var change apply.Change
		change, err = c.applyOwned(ctx, app, &platformv1.Component{
			ObjectMeta: meta(app, platformv1.ComponentNameFor(app.Name, wanted[i].Component), wanted[i].Component),
			Spec:       wanted[i],
		})
		if change != apply.Unchanged {
			f.written = append(f.written, wanted[i].Component)
		}
	}
	if err == nil {
		err = c.ensureBinding(ctx, app, f)
	}
	for name, component := range f.components {
		if err == nil && !names[name] && component.DeletionTimestamp == nil {
			err = c.apply.Delete(ctx, component)
		}
	}
	return apply.Outcome(err)
}

// hold passes the wish to be left alone down to the Components, and nothing else.
func (c *Controller) hold(ctx context.Context, app *platformv1.Application, f *facts) outcome.Outcome {
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		component := f.components[name]
		if component.Spec.Suspend || component.DeletionTimestamp != nil {
			continue
		}
		held := &platformv1.Component{ObjectMeta: meta(app, component.Name, name), Spec: *component.Spec.DeepCopy()}
		held.Spec.Suspend = true
		if _, err := c.applyOwned(ctx, app, held); err != nil {
			return apply.Outcome(err)
		}
	}
	return outcome.Held(platformv1.ReasonSuspended, "nothing is done, healing included, while suspend is true")
}

func (c *Controller) applyOwned(ctx context.Context, app *platformv1.Application, obj client.Object) (apply.Change, error) {
	if err := controllerutil.SetControllerReference(app, obj, c.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return c.apply.Apply(ctx, obj)
}

// ensureCredentials makes a Secret with a random password for each credential
// that the user does not supply. It is made once: a crash between two turns finds it again.
func (c *Controller) ensureCredentials(ctx context.Context, app *platformv1.Application, f *facts) error {
	supplied := map[string]bool{}
	for _, credential := range app.Spec.Credentials {
		supplied[credential.Name] = true
	}
	for _, declared := range f.state.Bundle.Components.Credentials {
		if supplied[declared.Name] || f.passwords[declared.Name] != "" {
			continue
		}
		password := newPassword(declared)
		secret := &corev1.Secret{
			ObjectMeta: meta(app, platformv1.CredentialNameFor(app.Name, declared.Name), ""),
			Type:       corev1.SecretTypeBasicAuth,
			Data:       map[string][]byte{usernameKey: []byte(declared.Username), passwordKey: []byte(password)},
		}
		if err := controllerutil.SetControllerReference(app, secret, c.client.Scheme()); err != nil {
			return err
		}
		change, err := c.apply.Create(ctx, secret)
		if err != nil {
			return err
		}
		if change == apply.Created {
			f.passwords[declared.Name] = password
		}
	}
	return nil
}

// credentialsRevision tells one set of passwords from another; known is false while one is not.
func (c *Controller) credentialsRevision(app *platformv1.Application, f *facts) (revision string, known bool) {
	text := string(app.UID)
	for _, declared := range f.state.Bundle.Components.Credentials {
		password, ok := f.passwords[declared.Name]
		if !ok {
			return "", false
		}
		text += "\x00" + declared.Name + "\x00" + password
	}
	return c.Digest(text), true
}

// newPassword returns letters and digits from the system's random source.
func newPassword(declared plugin.Credential) string {
	length := declared.Length
	if length == 0 {
		length = defaultPasswordLength
	}
	text := ""
	for len(text) < length {
		text += rand.Text()
	}
	return text[:length]
}

// ensureBinding applies the Secret after the Service Binding specification, once password and endpoints are known.
func (c *Controller) ensureBinding(ctx context.Context, app *platformv1.Application, f *facts) error {
	bundle := f.state.Bundle
	binding := bundle.Components.Binding
	if binding == nil || f.components[binding.Component] == nil {
		return nil
	}
	declared, ok := bundle.Credential(binding.Credential)
	password := f.passwords[binding.Credential]
	var username string
	if ok {
		username = declared.Username
	}
	if binding.Credential != "" && password == "" {
		return nil
	}
	ca, known := f.ca(binding.Component)
	if !known {
		// The Secret with it wakes us.
		return nil
	}
	data := render.Binding(bundle, app.Name, f.components[binding.Component].Status.Endpoints, username, password, ca)
	if data == nil {
		return nil
	}
	if keeps, err := c.keepsBinding(ctx, app, f, data); err != nil || keeps {
		return err
	}
	_, err := c.applyOwned(ctx, app, &corev1.Secret{
		ObjectMeta: meta(app, platformv1.BindingNameFor(app.Name), ""),
		Type:       corev1.SecretType("servicebinding.io/" + binding.Type),
		Data:       data,
	})
	return err
}

// meta is the metadata of what belongs to an Application, and to one of its components when that is not empty.
func meta(app *platformv1.Application, name, component string) metav1.ObjectMeta {
	labels := map[string]string{
		platformv1.ManagedByLabel:      platformv1.ManagedBy,
		platformv1.InstanceLabel:       app.Name,
		platformv1.NameLabel:           app.Spec.Plugin,
		platformv1.DomainLabel:         app.Labels[platformv1.DomainLabel],
		platformv1.ApplicationLabel:    app.Name,
		platformv1.ApplicationUIDLabel: string(app.UID),
	}
	if component != "" {
		labels[platformv1.ComponentLabel] = component
	}
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: name, Labels: labels}
}
