// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Sample stands for the name and the namespace in a rendered pod template.
var Sample = types.NamespacedName{Namespace: "bench-namespace", Name: "bench-name"}

// selectorLabel tells the pods of one StatefulSet from all others.
const selectorLabel = "example.com/statefulset"

// Baseline makes StatefulSets whose pods are those of an Application.
type Baseline struct{ template string }

// NewBaseline takes the pod template from what zictl renders of the Application named Sample.
func NewBaseline(rendered []byte) (Baseline, error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096); ; {
		set := &platformv1.WorkloadSet{}
		err := decoder.Decode(set)
		if errors.Is(err, io.EOF) {
			return Baseline{}, errors.New("cannot make StatefulSets like the Application: it is rendered without a WorkloadSet")
		}
		if err != nil {
			return Baseline{}, fmt.Errorf("cannot read the rendered Application: %w", err)
		}
		if set.Kind == "WorkloadSet" {
			return Baseline{template: string(set.Spec.Template.Raw)}, nil
		}
	}
}

// Objects returns a StatefulSet and its Service.
func (b Baseline) Objects(key types.NamespacedName) ([]client.Object, error) {
	text := strings.NewReplacer(Sample.Name, key.Name, Sample.Namespace, key.Namespace, "${pod.name}", key.Name).Replace(
		b.template)
	var template corev1.PodTemplateSpec
	if err := json.Unmarshal([]byte(text), &template); err != nil {
		return nil, fmt.Errorf("cannot read the pod template: %w", err)
	}
	labels := map[string]string{selectorLabel: key.Name}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[selectorLabel] = key.Name
	// Nobody makes an account for it.
	template.Spec.ServiceAccountName = ""
	object := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels}
	return []client.Object{
		&corev1.Service{ObjectMeta: object, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: labels,
			Ports: []corev1.ServicePort{{Name: "cell", Port: 7000, TargetPort: intstr.FromInt32(7000)}},
		}},
		&appsv1.StatefulSet{ObjectMeta: object, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(Replicas)), ServiceName: key.Name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		}},
	}, nil
}

// MakeStatefulSets makes all StatefulSets.
func (f Fleet) MakeStatefulSets(b Baseline) func(context.Context) error {
	return func(ctx context.Context) error {
		return f.Each(ctx, func(ctx context.Context, key types.NamespacedName) error {
			objects, err := b.Objects(key)
			if err != nil {
				return err
			}
			for _, object := range objects {
				if err := f.Client.Create(ctx, object); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// StatefulSetReady is true of a StatefulSet that has seen its spec and all of whose pods are ready.
func StatefulSetReady(object client.Object) bool {
	set, ok := object.(*appsv1.StatefulSet)
	return ok && set.Status.ObservedGeneration == set.Generation && set.Status.ReadyReplicas == Replicas
}

// RemoveStatefulSets deletes all StatefulSets and waits until their pods are gone.
func (f Fleet) RemoveStatefulSets(ctx context.Context) error {
	return f.remove(ctx, &appsv1.StatefulSet{}, &corev1.Service{})
}

// remove deletes all objects of these kinds and waits until the pods of the fleet are gone.
func (f Fleet) remove(ctx context.Context, kinds ...client.Object) error {
	for i := range f.Namespaces {
		for _, object := range kinds {
			err := f.Client.DeleteAllOf(ctx, object, client.InNamespace(f.namespace(i)),
				client.PropagationPolicy(metav1.DeletePropagationBackground))
			if err != nil {
				return fmt.Errorf("cannot delete what was made: %w", err)
			}
		}
	}
	return f.gone(ctx, corev1.SchemeGroupVersion.WithKind("PodList"))
}

// gone waits until the namespaces of the fleet hold no object of a kind.
func (f Fleet) gone(ctx context.Context, list schema.GroupVersionKind) error {
	err := poll(ctx, func() (bool, error) {
		left, err := f.Objects(ctx, list)
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("what is in a %s is not gone: %w", list.Kind, err)
	}
	return nil
}

// Objects returns UID and version of all objects of a kind in the namespaces of the fleet, by name.
func (f Fleet) Objects(ctx context.Context, list schema.GroupVersionKind) (map[string]string, error) {
	found := map[string]string{}
	for i := range f.Namespaces {
		items := &metav1.PartialObjectMetadataList{}
		items.SetGroupVersionKind(list)
		if err := f.Client.List(ctx, items, client.InNamespace(f.namespace(i))); err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", list.Kind, err)
		}
		for _, item := range items.Items {
			found[item.Namespace+"/"+item.Name] = string(item.UID) + " " + item.ResourceVersion
		}
	}
	return found, nil
}
