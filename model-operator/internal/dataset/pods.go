// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// observePods fills in which pods mount claims. Pods are of anybody: the cache has but those of operators.
func (c *Controller) observePods(ctx context.Context, ds *aiv1.Dataset, f *facts) error {
	var pods corev1.PodList
	if err := c.live.List(ctx, &pods, client.InNamespace(ds.Namespace)); err != nil {
		return fmt.Errorf("cannot list the pods that may mount a claim: %w", err)
	}
	own, err := c.ownOperations(ctx, ds)
	if err != nil {
		return err
	}
	f.mounted, f.ended, f.spent = map[string]string{}, map[string]string{}, map[string][]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for _, volume := range pod.Spec.Volumes {
			switch from := volume.PersistentVolumeClaim; {
			case from == nil:
			case !ended:
				f.mounted[from.ClaimName] = pod.Name
			case own[pod.Labels[platformv1.OperationLabel]]:
				f.spent[from.ClaimName] = append(f.spent[from.ClaimName], pod)
			default:
				f.ended[from.ClaimName] = pod.Name
			}
		}
	}
	return nil
}

// ownOperations are the names of the Operations of a Dataset.
func (c *Controller) ownOperations(ctx context.Context, ds *aiv1.Dataset) (map[string]bool, error) {
	var list platformv1.OperationList
	err := c.client.List(ctx, &list, client.InNamespace(ds.Namespace), client.MatchingLabels{aiv1.DatasetLabel: ds.Name})
	if err != nil {
		return nil, fmt.Errorf("cannot list the Operations of Dataset %q: %w", ds.Name, err)
	}
	own := map[string]bool{}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], ds) {
			own[list.Items[i].Name] = true
		}
	}
	return own, nil
}
