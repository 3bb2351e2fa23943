// SPDX-License-Identifier: Apache-2.0

package component

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// preflight has the API server try, as a dry run, a pod of each set whose pods are about to be replaced or resized: a
// pod that cannot be resized is replaced. What it would refuse, a priority class that is not there or resources that a
// LimitRange rules out for example, is refused before a pod that runs is given up for it.
func (c *Controller) preflight(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) outcome.Outcome {
	for _, wanted := range output.WorkloadSets {
		live := f.sets[wanted.Name]
		ordinals := platformv1.OrdinalsOf(wanted.Spec.Replicas, wanted.Spec.ExcludedOrdinals)
		if live == nil || len(ordinals) == 0 || !*wanted.Spec.Running {
			continue
		}
		if live.Spec.Revision == wanted.Spec.Revision && !resizes(&live.Spec, &wanted.Spec) {
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
				fmt.Sprintf("the pods of WorkloadSet %s are left as they are, since the API server refuses the new ones: %v; "+
					"change the spec, or what refuses it",
					wanted.Name, err))
		}
	}
	return outcome.Done()
}

// resizes says whether a container of the pods gets other resources.
func resizes(before, after *platformv1.WorkloadSetSpec) bool {
	if bytes.Equal(before.Template.Raw, after.Template.Raw) {
		return false
	}
	was, is := containerResources(before), containerResources(after)
	return was == nil || is == nil || !equality.Semantic.DeepEqual(was, is)
}

// containerResources are those of a template, by name; nil for a template that cannot be read.
func containerResources(spec *platformv1.WorkloadSetSpec) map[string]corev1.ResourceRequirements {
	var template struct {
		Spec struct {
			Containers []struct {
				Name      string                      `json:"name"`
				Resources corev1.ResourceRequirements `json:"resources"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(spec.Template.Raw, &template); err != nil {
		return nil
	}
	found := map[string]corev1.ResourceRequirements{}
	for _, container := range template.Spec.Containers {
		found[container.Name] = container.Resources
	}
	return found
}

// isRefusal says whether the API server would never make such a pod. One that a quota has no room for beside
// the present pods can still take the place of one of them, and a pod of that name is there anyway.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && !apply.ExceedsQuota(err)
}
