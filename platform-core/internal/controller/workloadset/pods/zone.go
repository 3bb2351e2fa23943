// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Unzoned are the pods that ask for the zone of their node, and have got a node and not been told.
func (f *Verdict) Unzoned() []*corev1.Pod {
	var unzoned []*corev1.Pod
	for of, want := range f.wanted {
		pod := f.Pods[of]
		_, told := pod.Annotations[platformv1.ZoneAnnotation]
		if !told && pod.Spec.NodeName != "" && render.AsksForZone(want) {
			unzoned = append(unzoned, pod)
		}
	}
	return unzoned
}

// TellZones writes the zone of its node onto each of these pods. A pod keeps what it was told: its next one learns of
// another label of the node.
func (r *Reconciler) TellZones(ctx context.Context, unzoned []*corev1.Pod) error {
	zones := map[string]*string{}
	for _, pod := range unzoned {
		name := pod.Spec.NodeName
		zone := zones[name]
		if zone == nil {
			var err error
			if zone, err = r.zoneOf(ctx, pod); err != nil {
				return err
			}
			zones[name] = zone
		}
		if zone == nil {
			continue
		}
		if err := r.tellZone(ctx, pod, *zone); err != nil {
			return err
		}
	}
	return nil
}

// zoneOf is the zone of the node of a pod: as Kubernetes has put it onto the pod, which it does from 1.35 on, or as the
// node says. It is empty where the operator may not see nodes, and nil for a node that is not there any more.
func (r *Reconciler) zoneOf(ctx context.Context, pod *corev1.Pod) (*string, error) {
	if zone, known := pod.Labels[corev1.LabelTopologyZone]; known {
		return &zone, nil
	}
	var nodes corev1.NodeList
	err := r.Live.List(ctx, &nodes, client.MatchingFields{"metadata.name": pod.Spec.NodeName})
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

func (r *Reconciler) tellZone(ctx context.Context, pod *corev1.Pod, zone string) error {
	value, err := json.Marshal(zone)
	if err != nil {
		return err
	}
	return r.annotate(ctx, pod, platformv1.ZoneAnnotation, string(value))
}

// zoneTold is the zone that a pod was told; empty for none.
func zoneTold(pod *corev1.Pod) string {
	var zone string
	// Without the annotation, or with one that somebody else wrote, none was told.
	_ = json.Unmarshal([]byte(pod.Annotations[platformv1.ZoneAnnotation]), &zone)
	return zone
}
