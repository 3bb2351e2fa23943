// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/scope"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/tuning"
)

// finalizerDomain ends the prefix of every finalizer of the suite.
const finalizerDomain = "zeroinfra.github.com/"

// uninstall is what the chart's hook knows.
type uninstall struct {
	settings
	// deployment is the name of the operator's Deployment; empty when there is none to stop.
	deployment string
	// force leaves out the check.
	force bool
	// release is the name of the Helm release whose uninstallation this is a part of, and revision that of its hook;
	// empty when a person runs the command.
	release  string
	revision int
}

// prepareUninstall is what the chart runs before it takes the operator away. Only a
// running operator removes its finalizers: without it, such objects could not be deleted.
func prepareUninstall(o Options) *cobra.Command {
	u := uninstall{settings: settings{qps: 20, burst: 40}}
	command := &cobra.Command{
		Use: "prepare-uninstall",
		Short: "Fail while there are objects that only this operator can finish deleting, else have it stop and give its " +
			"lease back",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			live, err := u.client(o)
			if err != nil {
				return err
			}
			if u.release != "" {
				release := helmRelease{Reader: live, namespace: u.namespace, name: u.release, revision: u.revision}
				gone, err := release.uninstalling(command.Context())
				if err != nil {
					return err
				}
				if !gone {
					fmt.Fprintf(command.OutOrStdout(), "nothing is done: Helm does not uninstall release %q in namespace %q; leave "+
						"out the hooks of a chart that something else than Helm applies\n", u.release, u.namespace)
					return nil
				}
			}
			if err := u.check(command.Context(), live, o); err != nil {
				return err
			}
			if u.deployment == "" {
				return nil
			}
			err = standDown(command.Context(), live, command.OutOrStdout(),
				types.NamespacedName{Namespace: u.namespace, Name: u.deployment}, leaseName(o.Domain))
			if err != nil {
				return err
			}
			// Another operator can take the namespaces over at once.
			return registryOf(live, o.Domain, u.settings).Release(command.Context())
		},
	}
	flags := command.Flags()
	u.bindCluster(flags, o.Domain)
	flags.StringVar(&u.deployment, "deployment", "", "Deployment of the operator, to be scaled to 0 (default: none is)")
	flags.StringVar(&u.release, "release", "",
		"Helm release that this is a hook of: nothing is done unless Helm uninstalls it (default: no release)")
	flags.IntVar(&u.revision, "revision", 1, "revision of that release that the hook was rendered for")
	flags.BoolVar(&u.force, "force", false, "do not look for objects that only this operator can finish deleting")
	return command
}

// client returns a client that reads live objects.
func (u *uninstall) client(o Options) (client.Client, error) {
	cfg, err := u.restConfig(o)
	if err != nil {
		return nil, err
	}
	scheme, err := schemeOf(o)
	if err != nil {
		return nil, err
	}
	live, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return live, nil
}

// check returns an error that names every object of the operator with a finalizer of ours, unless it is told to force
// it.
func (u *uninstall) check(ctx context.Context, live client.Client, o Options) error {
	if u.force {
		return nil
	}
	// A release that was refused once can no longer be upgraded: the ConfigMap can still be edited.
	found, err := tuning.Read(ctx, live, u.settingsKey())
	if err != nil {
		return err
	}
	if found != nil && found.Data[tuning.KeyForce] == "true" {
		return nil
	}
	err = registryOf(live, o.Domain, u.settings).Elsewhere(ctx)
	if served := (*scope.ServedError)(nil); errors.As(err, &served) {
		return nil // This one stands by, and nothing is left to it.
	}
	if err != nil {
		return err
	}
	kinds, err := finalized(live.Scheme(), o)
	if err != nil {
		return err
	}
	var stranded []error
	elsewhere := &others{live: live, domain: o.Domain, leads: map[string]bool{}}
	for _, kind := range kinds {
		for _, namespace := range u.namespaces() {
			found, err := heldObjects(ctx, live, kind, namespace)
			if err != nil {
				return fmt.Errorf("cannot list objects of kind %q: %w", kind.Kind, err)
			}
			if kind.owner == everyOperator {
				if found, err = elsewhere.leave(ctx, found); err != nil {
					return err
				}
			}
			for _, one := range found {
				stranded = append(stranded, one)
			}
		}
	}
	if len(stranded) == 0 {
		return nil
	}
	return fmt.Errorf("cannot uninstall the %s operator: without it these objects cannot be deleted; delete them first, "+
		"set their deletionPolicy to Retain, or set %s to \"true\" in ConfigMap %q and uninstall again:\n%w",
		o.Domain, tuning.KeyForce, u.settingsKey(), errors.Join(stranded...))
}

// kindOf is a kind that may have finalizers of ours, and which of its objects are the operator's.
type kindOf struct {
	schema.GroupVersionKind
	selector client.MatchingLabels
	owner    ownership
}

// ownership says who can finish deleting an object; this operator alone when it is empty.
type ownership string

// everyOperator can that serves the namespace.
const everyOperator ownership = "every operator"

// held is an object with a finalizer of ours.
type held struct {
	client.ObjectKey
	kind, finalizer string
}

// Error names it.
func (h held) Error() string {
	return fmt.Sprintf("%s %s has the finalizer %s", h.kind, h.ObjectKey, h.finalizer)
}

// finalized returns the kinds of the engine, of which the operator has those of its domain, its own typed kinds, and
// what is of no domain.
func finalized(scheme *runtime.Scheme, o Options) ([]kindOf, error) {
	var kinds []kindOf
	for _, object := range ofDomain() {
		gvk, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return nil, err
		}
		if gvk.Group == platformv1.GroupVersion.Group {
			kinds = append(kinds, kindOf{GroupVersionKind: gvk,
				selector: client.MatchingLabels{platformv1.DomainLabel: o.Domain}})
		}
	}
	for _, registration := range o.Kinds {
		gvk, err := apiutil.GVKForObject(registration.Object(), scheme)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kindOf{GroupVersionKind: gvk})
	}
	return append(kinds, kindOf{GroupVersionKind: platformv1.GroupVersion.WithKind("BackupRepository"),
		owner: everyOperator}), nil
}

// heldObjects returns the objects with a finalizer of ours.
func heldObjects(ctx context.Context, live client.Reader, kind kindOf, namespace string) ([]held, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := live.List(ctx, list, kind.selector, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []held
	for _, item := range list.Items {
		for _, finalizer := range item.Finalizers {
			if strings.Contains(finalizer, finalizerDomain) {
				found = append(found, held{types.NamespacedName{Namespace: item.Namespace, Name: item.Name}, kind.Kind, finalizer})
			}
		}
	}
	return found, nil
}
