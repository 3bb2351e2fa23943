// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// labels are on all that belongs to the component.
func (c *context) labels() map[string]string {
	return map[string]string{
		platformv1.ManagedByLabel:   platformv1.ManagedBy,
		platformv1.InstanceLabel:    c.owner.Application,
		platformv1.NameLabel:        c.bundle.Manifest.Name,
		platformv1.DomainLabel:      c.owner.Domain,
		platformv1.ApplicationLabel: c.owner.Application,
		platformv1.ComponentLabel:   c.spec.Component,
	}
}

// selector finds the pods of the component; role narrows it when not empty.
func (c *context) selector(role string) map[string]string {
	labels := map[string]string{
		platformv1.ApplicationLabel: c.owner.Application,
		platformv1.ComponentLabel:   c.spec.Component,
	}
	if role != "" {
		labels[platformv1.RoleLabel] = role
	}
	return labels
}

// setSelector finds the pods of the set.
func (c *setContext) setSelector() map[string]string {
	labels := c.selector("")
	labels[platformv1.SetLabel] = c.set.name
	return labels
}

// services renders the headless Service, then those that the plugin declares.
func (c *context) services() ([]*corev1.Service, []platformv1.Endpoint) {
	headless := c.service(plugin.HeadlessServiceName(c.owner.Application, c.spec.Component), c.selector(""), slices.DeleteFunc(slices.Clone(c.declared.Ports), func(p plugin.Port) bool { return p.Access == plugin.PortMetrics }))
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	// Members find each other before they are ready.
	headless.Spec.PublishNotReadyAddresses = true
	services := []*corev1.Service{headless}
	var endpoints []platformv1.Endpoint
	for _, s := range c.declared.Services {
		if c.nobodyHas(s.Role) {
			continue
		}
		var ports []plugin.Port
		for _, port := range c.declared.Ports {
			if slices.Contains(s.Ports, port.Name) {
				ports = append(ports, port)
			}
		}
		service := c.service(plugin.ServiceNameFor(c.owner.Application, s.Name), c.selector(s.Role), ports)
		services = append(services, service)
		if s.Exposure == plugin.ExposureInternal {
			continue
		}
		if c.spec.Service != nil {
			if c.spec.Service.Type != "" {
				service.Spec.Type = c.spec.Service.Type
			}
			service.Annotations = maps.Clone(c.spec.Service.Annotations)
		}
		endpoints = append(endpoints, platformv1.Endpoint{
			Name: service.Name,
			Host: service.Name + "." + c.owner.Namespace + ".svc",
			Port: ports[0].Port,
			Role: s.Role,
			Type: service.Spec.Type,
		})
	}
	return services, endpoints
}

func (c *context) service(name string, selector map[string]string, ports []plugin.Port) *corev1.Service {
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.owner.Namespace, Labels: c.labels()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: selector},
	}
	for _, port := range ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: port.Name, Port: port.Port, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(port.Name),
		})
	}
	return service
}

// nobodyHas says whether no pod can have a role: where a single pod writes nobody follows.
func (c *context) nobodyHas(role string) bool {
	return c.declared.Failover != nil && (c.spec.Failover == nil || c.bundle.Alone(c.spec.Component, c.spec.Topology)) && slices.ContainsFunc(c.declared.Roles, func(r plugin.Role) bool {
		return r.Name == role && r.Access != platformv1.RoleReadWrite
	})
}
