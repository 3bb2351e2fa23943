// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// tellZones writes the zone of its node onto each pod that asks for it and has just got a node. A pod keeps what it was
// told: its next one learns of another label of the node.
func (c *Controller) tellZones(ctx context.Context, f *facts) error {
	zones := map[string]*string{}
	for of, want := range f.wanted {
		pod := f.pods[of]
		name := pod.Spec.NodeName
		_, told := pod.Annotations[platformv1.ZoneAnnotation]
		if told || name == "" || !render.AsksForZone(want) {
			continue
		}
		zone := zones[name]
		if zone == nil {
			var err error
			if zone, err = c.zoneOf(ctx, pod); err != nil {
				return err
			}
			zones[name] = zone
		}
		if zone == nil {
			continue
		}
		if err := c.tellZone(ctx, pod, *zone); err != nil {
			return err
		}
	}
	return nil
}

// zoneOf is the zone of the node of a pod: as Kubernetes has put it onto the pod, which it does from 1.35 on, or as the
// node says. It is empty where the operator may not see nodes, and nil for a node that is not there any more.
func (c *Controller) zoneOf(ctx context.Context, pod *corev1.Pod) (*string, error) {
	if zone, known := pod.Labels[corev1.LabelTopologyZone]; known {
		return &zone, nil
	}
	var nodes corev1.NodeList
	err := c.live.List(ctx, &nodes, client.MatchingFields{"metadata.name": pod.Spec.NodeName})
	switch {
	case apierrors.IsForbidden(err):
		return new(""), nil
	case err != nil:
		return nil, fmt.Errorf("cannot look at node %q: %w", pod.Spec.NodeName, err)
	case len(nodes.Items) == 0:
		return nil, nil
	}
	return new(nodes.Items[0].Labels[corev1.LabelTopologyZone]), nil
}

func (c *Controller) tellZone(ctx context.Context, pod *corev1.Pod, zone string) error {
	value, err := json.Marshal(zone)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{platformv1.ZoneAnnotation: string(value)},
	}})
	if err != nil {
		return err
	}
	err = c.client.Patch(ctx, addressOf(pod), client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	return client.IgnoreNotFound(err)
}

// zoneTold is the zone that a pod was told; empty for none.
func zoneTold(pod *corev1.Pod) string {
	var zone string
	// Without the annotation, or with one that somebody else wrote, none was told.
	_ = json.Unmarshal([]byte(pod.Annotations[platformv1.ZoneAnnotation]), &zone)
	return zone
}
