// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/archive"
	"github.com/zeroinfra/platform-core/internal/instance"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/internal/secretvalue"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// facts are what one turn knows.
type facts struct {
	// state of the plugin in the index; zero when it is not there.
	state plugin.State
	// publisher is the domain of the plugin by its Plugin object; looked up when the index does not have it.
	publisher string
	// components that the Application owns, by their name in the plugin.
	components map[string]*platformv1.Component
	// made are the sets that there are of components that others edited, with the pods that each has, by component.
	made map[string][]platformv1.ComponentSet
	// passwords by credential, those that users supply and those that were generated; absent when the Secret or key is.
	passwords map[string]string
	// unusable says of credentials why what is in their Secret is refused as the password; they have none in passwords.
	unusable map[string]string
	// credentials are the Secrets that the pods mount, by credential.
	credentials map[string]*corev1.Secret
	// revisions of the passwords, by credential; absent while the Secret is not made.
	revisions map[string]string
	// handovers are what the pods mount beside the password of a credential, by credential.
	handovers map[string]handover
	// archive and logs are the BackupRepositories that the spec names.
	archive, logs archive.Place
	// supplied are the credentials that users supply, in the spec or by the repository of the archive.
	supplied []platformv1.Credential
	// held says of each password that another one waits for, and why.
	held []outcome.Outcome
	// classes are the names of all StorageClasses; the default one under "".
	classes map[string]bool
	// backup is the one that the instance is to begin with; nil when it is not there, and once its data is.
	backup *platformv1.Backup
	// judged is the Backup of the instance that a drill judged last; nil for none.
	judged *platformv1.Backup
	// completed is the newest Backup of the instance that is completed, and restored the newest drill that found one
	// good; nil for none.
	completed *platformv1.BackupRecord
	restored  *platformv1.VerifiedRestore
	// tls is what is known of TLS.
	tls tlsFacts
	// taken is the generation that the instance was driven to before this turn; 0 for none.
	taken int64
	// claims of volumes by name; looked up where the spec has fewer additional volumes than a component.
	claims map[string]*corev1.PersistentVolumeClaim
	// written are the components that this turn wrote: what components says of them is older than that.
	written []string
}

func (c *Controller) observe(ctx context.Context, app *platformv1.Application) (*facts, error) {
	f := &facts{passwords: map[string]string{}, unusable: map[string]string{}, credentials: map[string]*corev1.Secret{},
		revisions: map[string]string{}, handovers: map[string]handover{}}
	f.state, _ = c.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)

	if f.state.Bundle == nil {
		if err := c.observePublisher(ctx, app, f); err != nil {
			return nil, err
		}
	} else {
		f.state.Bundle = f.state.Bundle.In(app.Spec.Topology)
	}
	if err := c.observeComponents(ctx, app, f); err != nil {
		return nil, err
	}
	if err := c.observeMade(ctx, app, f); err != nil {
		return nil, err
	}
	if err := c.observeBackup(ctx, app, f); err != nil {
		return nil, err
	}
	if err := c.observeBackups(ctx, app, f); err != nil {
		return nil, err
	}
	if err := c.observeClasses(ctx, f); err != nil {
		return nil, err
	}
	if err := c.observeClaims(ctx, app, f); err != nil {
		return nil, err
	}
	if err := c.observeTLS(ctx, app, f); err != nil {
		return nil, err
	}
	if err := c.observeArchive(ctx, app, f); err != nil {
		return nil, err
	}
	return f, c.observePasswords(ctx, app, f)
}

func (c *Controller) observeComponents(ctx context.Context, app *platformv1.Application, f *facts) error {
	var components platformv1.ComponentList
	if err := c.client.List(ctx, &components, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
		return err
	}
	f.components = map[string]*platformv1.Component{}
	for i := range components.Items {
		if metav1.IsControlledBy(&components.Items[i], app) {
			f.components[components.Items[i].Spec.Component] = &components.Items[i]
		}
	}
	return nil
}

// observeMade reads the sets of components that others edited: how many pods there are, those do not say.
func (c *Controller) observeMade(ctx context.Context, app *platformv1.Application, f *facts) error {
	f.made = map[string][]platformv1.ComponentSet{}
	for name, component := range f.components {
		if !isEdited(component) {
			continue
		}
		var sets platformv1.WorkloadSetList
		if err := c.client.List(ctx, &sets, client.InNamespace(app.Namespace), client.MatchingLabels{
			platformv1.ApplicationLabel: app.Name, platformv1.ComponentLabel: name}); err != nil {
			return err
		}
		for i := range sets.Items {
			if spec := &sets.Items[i].Spec; metav1.IsControlledBy(&sets.Items[i], component) {
				f.made[name] = append(f.made[name],
					platformv1.ComponentSet{Name: spec.Set, Replicas: &spec.Replicas, ExcludedOrdinals: spec.ExcludedOrdinals})
			}
		}
	}
	return nil
}

func (c *Controller) observePublisher(ctx context.Context, app *platformv1.Application, f *facts) error {
	var published platformv1.PluginList
	if err := c.client.List(ctx, &published); err != nil {
		return err
	}
	for i := range published.Items {
		if spec := &published.Items[i].Spec; spec.Plugin == app.Spec.Plugin &&
			spec.Version == platformv1.CanonicalPluginVersion(app.Spec.PluginVersion) {
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

// observeClaims reads the claims of an instance that is to have fewer volumes: those with a volume stay.
func (c *Controller) observeClaims(ctx context.Context, app *platformv1.Application, f *facts) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(f.components)),
		func(component *platformv1.Component) bool { return accept.LosesVolumes(app, component) }) {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := c.client.List(ctx, &claims, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
		return err
	}
	f.claims = map[string]*corev1.PersistentVolumeClaim{}
	for i := range claims.Items {
		f.claims[claims.Items[i].Name] = &claims.Items[i]
	}
	return nil
}

// reportOperation says which Operation runs, as the cache knows them: the watch brings what is newer.
func (c *Controller) reportOperation(ctx context.Context, app *platformv1.Application) error {
	unfinished, err := records.Unfinished(ctx, c.client, app.Namespace, app.Name)
	if err != nil {
		return err
	}
	app.Status.ActiveOperation = ""
	if active := opsflow.Active(unfinished); active != nil {
		app.Status.ActiveOperation = active.Name
	}
	return nil
}

// observeBackup reads the Backup that the instance is to begin with.
func (c *Controller) observeBackup(ctx context.Context, app *platformv1.Application, f *facts) (err error) {
	f.backup, err = instance.Source(ctx, livereader.Reader{Cached: c.client, Live: c.live}, app)
	return err
}

// observePasswords reads the Secret that the pods mount for each credential, and the password that belongs in it: from
// the user's Secret, watched by name, or the one that was generated.
func (c *Controller) observePasswords(ctx context.Context, app *platformv1.Application, f *facts) error {
	if f.state.Bundle == nil {
		return nil
	}
	c.Secrets.Release(client.ObjectKeyFromObject(app), f.keysOf(app)...)
	for _, declared := range f.credentialsOf() {
		mounted := &corev1.Secret{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: app.Namespace,
			Name: platformv1.CredentialNameFor(app.Name, declared.Name)}, mounted)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && metav1.IsControlledBy(mounted, app) {
			f.credentials[declared.Name] = mounted
		}
		password, from := generated(f.credentials[declared.Name]), mountedFrom(app, declared.Name)
		if reference, users := f.suppliedFor(declared.Name); users {
			from = reference
			if password, err = c.supplied(ctx, app, reference); err != nil {
				return err
			}
		}
		switch why := secretvalue.Problem(from.Name, cmp.Or(from.Key, passwordKey), []byte(password)); {
		case why != "":
			f.unusable[declared.Name] = why
		case password != "":
			f.passwords[declared.Name] = password
		}
	}
	return nil
}

// mountedFrom is where the engine itself has the password of a credential.
func mountedFrom(app *platformv1.Application, credential string) platformv1.SecretKeyReference {
	return platformv1.SecretKeyReference{Name: platformv1.CredentialNameFor(app.Name, credential)}
}

// generated is the password that the engine made, or that somebody put into its place; "" when there is none.
func generated(mounted *corev1.Secret) string {
	if mounted == nil || mounted.Annotations[platformv1.PasswordFromAnnotation] != "" {
		return ""
	}
	return string(mounted.Data[passwordKey])
}

// supplied is the password in the user's Secret; "" when Secret or key is absent.
func (c *Controller) supplied(ctx context.Context, app *platformv1.Application,
	reference platformv1.SecretKeyReference) (string, error) {
	key := client.ObjectKey{Namespace: app.Namespace, Name: reference.Name}
	c.Secrets.Ensure(ctx, key, client.ObjectKeyFromObject(app))
	secret, err := c.Secrets.Get(ctx, key)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return string(secret.Data[cmp.Or(reference.Key, passwordKey)]), nil
}

// suppliedFor says where the user has the password of a credential.
func (f *facts) suppliedFor(credential string) (platformv1.SecretKeyReference, bool) {
	for _, supplied := range f.supplied {
		if supplied.Name == credential {
			return supplied.PasswordFrom, true
		}
	}
	return platformv1.SecretKeyReference{}, false
}

// keysOf are the Secrets that users supply.
func (f *facts) keysOf(app *platformv1.Application) []client.ObjectKey {
	keys := make([]client.ObjectKey, 0, len(f.supplied))
	for _, credential := range f.supplied {
		keys = append(keys, client.ObjectKey{Namespace: app.Namespace, Name: credential.PasswordFrom.Name})
	}
	return keys
}
