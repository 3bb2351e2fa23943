// SPDX-License-Identifier: Apache-2.0

package example

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// BundleKind teaches the frame the kind Bundle, whose objects have no Application.
// +kubebuilder:object:generate=false
type BundleKind struct{}

var (
	_ typed.Kind[*Bundle]           = BundleKind{}
	_ typed.ObjectMaker             = BundleKind{}
	_ typed.ObjectReporter[*Bundle] = BundleKind{}
	_ typed.Referrer[*Bundle]       = BundleKind{}
	_ typed.Runner[*Bundle]         = BundleKind{}
)

var (
	sampleKind = GroupVersion.WithKind("Sample")
	quotaKind  = corev1.SchemeGroupVersion.WithKind("ResourceQuota")
	// widgetKind is one that no cluster has, until a test defines it.
	widgetKind = GroupVersion.WithKind("Widget")
)

// Name implements typed.Kind.
func (BundleKind) Name() string { return "Bundle" }

// New implements typed.Kind.
func (BundleKind) New() *Bundle { return &Bundle{} }

// Compile implements typed.Kind.
func (k BundleKind) Compile(b *Bundle) (*typed.Output, error) { return k.CompileWith(b, nil) }

// CompileWith implements typed.Referrer.
func (BundleKind) CompileWith(b *Bundle, referents typed.Referents) (*typed.Output, error) {
	out := &typed.Output{}
	for i, object := range b.Spec.Objects {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(object.Raw); err != nil {
			return nil, fmt.Errorf("spec.objects[%d]: %w", i, err)
		}
		out.Objects = append(out.Objects, u)
	}
	if b.Spec.SampleRef == nil {
		return out, nil
	}
	if sample, ok := referents[refer(sampleKind, b.Spec.SampleRef, "spec.sampleRef")].(*Sample); ok {
		out.Objects = append(out.Objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: b.Name + "-host"},
			Data: map[string]string{"host": sample.Status.Host}})
	}
	application := platformv1.ApplicationNameFor("Sample", b.Spec.SampleRef.Name)
	for _, topic := range b.Spec.Topics {
		out.Entities = append(out.Entities,
			platformv1.EntitySpec{ApplicationRef: platformv1.ApplicationReference{Name: application}, Type: "topic",
				Name: topic})
	}
	for _, restart := range b.Spec.Restarts {
		out.Operations = append(out.Operations, &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: restart},
			Spec: platformv1.OperationSpec{
				TemplateRef: "Restart", Timeout: b.Spec.Timeout,
				TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
					Name: application},
			}})
	}
	return out, nil
}

// ObjectKinds implements typed.ObjectMaker.
func (BundleKind) ObjectKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("LimitRange"), widgetKind,
	}
}

// ReportObjects implements typed.ObjectReporter.
func (BundleKind) ReportObjects(b *Bundle, objects []*unstructured.Unstructured) {
	b.Status.Objects = int32(len(objects))
}

// ReferredKinds implements typed.Referrer.
func (BundleKind) ReferredKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{sampleKind, quotaKind, widgetKind}
}

// References implements typed.Referrer.
func (BundleKind) References(b *Bundle) []typed.Reference {
	var all []typed.Reference
	add := func(gvk schema.GroupVersionKind, ref *BundleReference, field string) {
		if ref != nil {
			all = append(all, refer(gvk, ref, field))
		}
	}
	add(sampleKind, b.Spec.SampleRef, "spec.sampleRef")
	add(quotaKind, b.Spec.QuotaRef, "spec.quotaRef")
	add(widgetKind, b.Spec.WidgetRef, "spec.widgetRef")
	return all
}

func refer(gvk schema.GroupVersionKind, ref *BundleReference, field string) typed.Reference {
	return typed.Reference{GVK: gvk, Namespace: ref.Namespace, Name: ref.Name, Field: field}
}

// Runs implements typed.Runner.
func (BundleKind) Runs(b *Bundle) *[]platformv1.RunStatus { return &b.Status.Runs }
