// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// ApplicationBuilder builds an Application step by step; Build returns it.
type ApplicationBuilder struct{ app platformv1.Application }

// BuildApplication begins an Application of plugin redis 1.0.0, version 7.0, topology standalone.
func BuildApplication(namespace, name string) *ApplicationBuilder {
	return &ApplicationBuilder{platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}},
		Spec: platformv1.ApplicationSpec{
			Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "standalone",
		},
	}}
}

// Plugin sets the plugin and its version.
func (b *ApplicationBuilder) Plugin(name, version string) *ApplicationBuilder {
	b.app.Spec.Plugin, b.app.Spec.PluginVersion = name, version
	return b
}

// Version sets the version of the middleware.
func (b *ApplicationBuilder) Version(version string) *ApplicationBuilder {
	b.app.Spec.Version = version
	return b
}

// Topology sets the topology.
func (b *ApplicationBuilder) Topology(topology string) *ApplicationBuilder {
	b.app.Spec.Topology = topology
	return b
}

// Label sets one label.
func (b *ApplicationBuilder) Label(name, value string) *ApplicationBuilder {
	b.app.Labels[name] = value
	return b
}

// Domain sets the domain label.
func (b *ApplicationBuilder) Domain(domain string) *ApplicationBuilder {
	return b.Label(platformv1.DomainLabel, domain)
}

// OwnedBy makes obj the controller of the Application.
func (b *ApplicationBuilder) OwnedBy(reference *metav1.OwnerReference) *ApplicationBuilder {
	b.app.OwnerReferences = append(b.app.OwnerReferences, *reference)
	return b
}

// Component adds a component with so many replicas.
func (b *ApplicationBuilder) Component(name string, replicas int32) *ApplicationBuilder {
	b.app.Spec.Components = append(b.app.Spec.Components, platformv1.ApplicationComponent{Name: name, Replicas: &replicas})
	return b
}

// Storage sets the size of the volumes of the component that was added last. It panics when there is none.
func (b *ApplicationBuilder) Storage(size string) *ApplicationBuilder {
	b.last().Storage = &platformv1.Storage{Size: resource.MustParse(size)}
	return b
}

// Resources sets the requests of the component that was added last. It panics when there is none.
func (b *ApplicationBuilder) Resources(cpu, memory string) *ApplicationBuilder {
	b.last().Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
	}}
	return b
}

// Parameter sets a parameter of the component that was added last. It panics when there is none.
func (b *ApplicationBuilder) Parameter(name, value string) *ApplicationBuilder {
	component := b.last()
	if component.Parameters == nil {
		component.Parameters = platformv1.Parameters{}
	}
	component.Parameters[name] = platformv1.ParameterValue(value)
	return b
}

// Build returns the Application, a new one at each call.
func (b *ApplicationBuilder) Build() *platformv1.Application { return b.app.DeepCopy() }

func (b *ApplicationBuilder) last() *platformv1.ApplicationComponent {
	return &b.app.Spec.Components[len(b.app.Spec.Components)-1]
}
