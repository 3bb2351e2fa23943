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
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// finalizerPrefix begins every finalizer of the suite.
const finalizerPrefix = "platform.zeroinfra.github.com/"

// uninstallCheck is what the chart runs before it takes the operator away. Only a
// running operator removes its finalizers: without it, such objects could not be deleted.
func uninstallCheck(o Options) *cobra.Command {
	s := settings{qps: 20, burst: 40}
	command := &cobra.Command{
		Use:   "uninstall-check",
		Short: "Fail when there are objects that only this operator can finish deleting",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, err := s.restConfig(o)
			if err != nil {
				return err
			}
			scheme, err := schemeOf(o)
			if err != nil {
				return err
			}
			live, err := client.New(cfg, client.Options{Scheme: scheme})
			if err != nil {
				return fmt.Errorf("cannot make a client: %w", err)
			}
			return checkUninstall(command.Context(), live, o.Domain)
		},
	}
	command.Flags().StringVar(&s.kubeconfig, "kubeconfig", "", "file with the address and credentials of the cluster (default: those of the pod, else the environment variable KUBECONFIG)")
	return command
}

// checkUninstall returns an error that names every object of the domain with a finalizer of ours.
func checkUninstall(ctx context.Context, live client.Reader, domain string) error {
	var held []error
	for _, kind := range []string{"Application", "Component", "WorkloadSet", "Operation"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(platformv1.GroupVersion.WithKind(kind + "List"))
		err := live.List(ctx, list, client.MatchingLabels{platformv1.DomainLabel: domain})
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot list objects of kind %q: %w", kind, err)
		}
		for _, item := range list.Items {
			for _, finalizer := range item.Finalizers {
				if strings.HasPrefix(finalizer, finalizerPrefix) {
					held = append(held, fmt.Errorf("%s %s/%s has the finalizer %s", kind, item.Namespace, item.Name, finalizer))
				}
			}
		}
	}
	if len(held) == 0 {
		return nil
	}
	return fmt.Errorf("cannot uninstall the %s operator: without it these objects cannot be deleted; delete them first, set their deletionPolicy to Retain, or uninstall all the same with helm uninstall --no-hooks:\n%w",
		domain, errors.Join(held...))
}
