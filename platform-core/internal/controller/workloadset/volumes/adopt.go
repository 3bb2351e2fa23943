// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
)

// adopt makes a claim that was looked at, and has not changed since, one of this Application.
func (r *Reconciler) adopt(ctx context.Context, set *platformv1.WorkloadSet,
	claim *corev1.PersistentVolumeClaim) error {
	labels := map[string]any{}
	for key, value := range facts.Meta(set, claim.Name).Labels {
		labels[key] = value
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             claim.UID,
		"resourceVersion": claim.ResourceVersion,
		"labels":          labels,
		"annotations":     map[string]any{platformv1.DataAnnotation: accept.DataOf(&set.Spec)},
	}})
	if err != nil {
		return err
	}
	adopted := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	if err := r.Client.Patch(ctx, adopted, client.RawPatch(types.MergePatchType, body),
		client.FieldOwner(facts.Owner)); err != nil {
		return err
	}
	r.Events.Normal(set, "AdoptingVolume", "claim %s of Application %s is used again", claim.Name,
		claim.Labels[platformv1.ApplicationUIDLabel])
	return nil
}
