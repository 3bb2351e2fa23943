// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// facts are what one turn knows.
type facts struct {
	// state of the plugin in the index; zero when it is not there.
	state plugin.State
	// publisher is the domain of the plugin by its Plugin object; looked up when the index does not have it.
	publisher string
	// components that the Application owns, by their name in the plugin.
	components map[string]*platformv1.Component
	// passwords by credential; absent when the Secret or key is.
	passwords map[string]string
	// classes are the names of all StorageClasses; the default one under "".
	classes map[string]bool
	// tls is what is known of TLS.
	tls tlsFacts
	// written are the components that this turn wrote: what components says of them is older than that.
	written []string
}

func (c *Controller) observe(ctx context.Context, app *platformv1.Application) (*facts, error) {
	f := &facts{components: map[string]*platformv1.Component{}, passwords: map[string]string{}}
	f.state, _ = c.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)

	if f.state.Bundle == nil {
		if err := c.observePublisher(ctx, app, f); err != nil {
			return nil, err
		}
	}
	var components platformv1.ComponentList
	if err := c.client.List(ctx, &components, client.InNamespace(app.Namespace), client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
		return nil, err
	}
	for i := range components.Items {
		if metav1.IsControlledBy(&components.Items[i], app) {
			f.components[components.Items[i].Spec.Component] = &components.Items[i]
		}
	}
	if err := c.observeClasses(ctx, f); err != nil {
		return nil, err
	}
	if err := c.observeTLS(ctx, app, f); err != nil {
		return nil, err
	}
	return f, c.observePasswords(ctx, app, f)
}

func (c *Controller) observePublisher(ctx context.Context, app *platformv1.Application, f *facts) error {
	var published platformv1.PluginList
	if err := c.client.List(ctx, &published); err != nil {
		return err
	}
	for i := range published.Items {
		if spec := &published.Items[i].Spec; spec.Plugin == app.Spec.Plugin && spec.Version == app.Spec.PluginVersion {
			f.publisher = spec.Domain
		}
	}
	return nil
}

func (c *Controller) observeClasses(ctx context.Context, f *facts) error {
	var classes storagev1.StorageClassList
	if err := c.client.List(ctx, &classes); err != nil {
		return err
	}
	f.classes = accept.Classes(classes.Items)
	return nil
}

// observePasswords reads the Secret of each credential: the user's, watched by
// name, or the one that the engine made.
func (c *Controller) observePasswords(ctx context.Context, app *platformv1.Application, f *facts) error {
	if f.state.Bundle == nil {
		return nil
	}
	supplied := map[string]platformv1.SecretKeyReference{}
	for _, credential := range app.Spec.Credentials {
		supplied[credential.Name] = credential.PasswordFrom
	}
	c.Secrets.Release(client.ObjectKeyFromObject(app), keysOf(app)...)
	for _, declared := range f.state.Bundle.Components.Credentials {
		reference, users := supplied[declared.Name]
		secret := &corev1.Secret{}
		var err error
		if users {
			key := client.ObjectKey{Namespace: app.Namespace, Name: reference.Name}
			c.Secrets.Ensure(ctx, key, client.ObjectKeyFromObject(app))
			secret, err = c.Secrets.Get(ctx, key)
		} else {
			reference.Key = passwordKey
			err = c.client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: platformv1.CredentialNameFor(app.Name, declared.Name)}, secret)
		}
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if password := string(secret.Data[reference.Key]); password != "" {
			f.passwords[declared.Name] = password
		}
	}
	return nil
}

// keysOf are the Secrets that the spec names.
func keysOf(app *platformv1.Application) []client.ObjectKey {
	keys := make([]client.ObjectKey, 0, len(app.Spec.Credentials))
	for _, credential := range app.Spec.Credentials {
		keys = append(keys, client.ObjectKey{Namespace: app.Namespace, Name: credential.PasswordFrom.Name})
	}
	return keys
}
