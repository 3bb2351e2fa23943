// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// preflight has the API server try, as a dry run, a pod of each set whose pods are about to be replaced. What it would
// refuse, a priority class that is not there for example, is refused before a pod that runs is given up for it.
func (c *Controller) preflight(ctx context.Context, component *platformv1.Component, f *facts, output *render.ComponentOutput) outcome.Outcome {
	for _, wanted := range output.WorkloadSets {
		live := f.sets[wanted.Name]
		ordinals := platformv1.OrdinalsOf(wanted.Spec.Replicas, wanted.Spec.ExcludedOrdinals)
		if live == nil || live.Spec.Revision == wanted.Spec.Revision || len(ordinals) == 0 || !*wanted.Spec.Running {
			continue
		}
		pod, err := render.Pod(&platformv1.WorkloadSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: wanted.Name}, Spec: wanted.Spec,
		}, ordinals[0])
		if err != nil {
			return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
		}
		if err := c.client.Create(ctx, pod, client.DryRunAll, client.FieldOwner(owner)); isRefusal(err) {
			// A policy, or the absence of a class, may be mended without a word to us.
			return outcome.StalledFor(refusedRecheck, platformv1.ReasonInvalidSpec,
				fmt.Sprintf("the pods of WorkloadSet %s are left as they are, since the API server refuses the new ones: %v", wanted.Name, err))
		}
	}
	return outcome.Done()
}

// isRefusal says whether the API server would never make such a pod. One that a quota has no room for beside
// the present pods can still take the place of one of them, and a pod of that name is there anyway.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "exceeded quota")
}
