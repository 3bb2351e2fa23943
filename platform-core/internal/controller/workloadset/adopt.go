// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// dataOf says whose data the volumes of a set hold.
func dataOf(set *platformv1.WorkloadSet) string {
	return set.Spec.Plugin.Name + "/" + set.Spec.Version
}

// majorOf leaves the major version of what dataOf says: "redis/7" of "redis/7.2".
func majorOf(data string) string {
	name, version, _ := strings.Cut(data, "/")
	major, _, _ := strings.Cut(version, ".")
	return name + "/" + major
}

// refuseAdoption says why a claim of an earlier Application is not used; nil when adoptVolumes
// names that Application and the data fits.
func refuseAdoption(set *platformv1.WorkloadSet, ordinal int32, claim *corev1.PersistentVolumeClaim) *outcome.Outcome {
	refuse := func(reason, format string, args ...any) *outcome.Outcome {
		return new(outcome.Stalled(reason, fmt.Sprintf(format, args...)))
	}
	uid := claim.Labels[platformv1.ApplicationUIDLabel]
	if uid == "" {
		return refuse(platformv1.ReasonRetainedVolumesExist,
			"claim %s does not say whose data it holds and is left alone: delete it if the data is not wanted, or use another name", claim.Name)
	}
	if set.Spec.AdoptVolumes != uid {
		return refuse(platformv1.ReasonRetainedVolumesExist,
			"claim %s holds the data of an earlier %s and is left alone: set adoptVolumes to %s to use it, delete it if the data is not wanted, or use another name",
			claim.Name, set.Spec.Application, uid)
	}
	if claim.DeletionTimestamp != nil {
		return refuse(platformv1.ReasonAdoptionRefused, "claim %s cannot be adopted: it is being deleted", claim.Name)
	}
	for _, trait := range []struct{ what, is, should string }{
		{"component", claim.Labels[platformv1.ComponentLabel], set.Spec.Component},
		{"set", claim.Labels[platformv1.SetLabel], set.Spec.Set},
		{"ordinal", claim.Labels[platformv1.OrdinalLabel], strconv.Itoa(int(ordinal))},
		{"plugin and major version", majorOf(claim.Annotations[platformv1.DataAnnotation]), majorOf(dataOf(set))},
	} {
		if trait.is != trait.should {
			return refuse(platformv1.ReasonAdoptionRefused, "claim %s cannot be adopted: its %s is %q and has to be %q; take adoptVolumes out or ask for what the data is of",
				claim.Name, trait.what, trait.is, trait.should)
		}
	}
	return nil
}

// adopt makes a claim that was looked at, and has not changed since, one of this Application.
func (c *Controller) adopt(ctx context.Context, set *platformv1.WorkloadSet, claim *corev1.PersistentVolumeClaim) error {
	labels := map[string]any{}
	for key, value := range meta(set, claim.Name).Labels {
		labels[key] = value
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             claim.UID,
		"resourceVersion": claim.ResourceVersion,
		"labels":          labels,
		"annotations":     map[string]any{platformv1.DataAnnotation: dataOf(set)},
	}})
	if err != nil {
		return err
	}
	adopted := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	if err := c.client.Patch(ctx, adopted, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner)); err != nil {
		return err
	}
	c.events.Normal(set, "AdoptingVolume", "claim %s of Application %s is used again", claim.Name, claim.Labels[platformv1.ApplicationUIDLabel])
	return nil
}
