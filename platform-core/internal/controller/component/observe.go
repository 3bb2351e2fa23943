// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// facts are what one turn knows.
type facts struct {
	// state of the pinned plugin in the index; zero when it is not there.
	state plugin.State
	// sets that the component owns, by name.
	sets map[string]*platformv1.WorkloadSet
	// written are the objects that this turn wrote: what sets says of them is older than that.
	written []string
}

func (c *Controller) observe(ctx context.Context, component *platformv1.Component) (*facts, error) {
	f := &facts{sets: map[string]*platformv1.WorkloadSet{}}
	f.state, _ = c.Index.Get(component.Spec.Plugin.Name, component.Spec.Plugin.Version)
	var sets platformv1.WorkloadSetList
	if err := c.client.List(ctx, &sets, client.InNamespace(component.Namespace), client.MatchingLabels{
		platformv1.ApplicationLabel: component.Spec.Application,
		platformv1.ComponentLabel:   component.Spec.Component,
	}); err != nil {
		return nil, err
	}
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], component) {
			f.sets[sets.Items[i].Name] = &sets.Items[i]
		}
	}
	return f, nil
}
