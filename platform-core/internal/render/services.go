// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
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
	headless := c.service(plugin.HeadlessServiceName(c.owner.Application, c.spec.Component), c.selector(""),
		slices.DeleteFunc(slices.Clone(c.declared.Ports), func(p schema.Port) bool { return p.Access == schema.PortMetrics }))
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	// Members find each other before they are ready.
	headless.Spec.PublishNotReadyAddresses = true
	services := []*corev1.Service{headless}
	var endpoints []platformv1.Endpoint
	clients := clientServices(c.declared)
	for _, s := range c.declared.Services {
		if c.nobodyHas(s.Role) {
			continue
		}
		var ports []schema.Port
		for _, port := range c.declared.Ports {
			if slices.Contains(s.Ports, port.Name) {
				ports = append(ports, port)
			}
		}
		service := c.service(plugin.ServiceNameFor(c.owner.Application, s.Name), c.selector(s.Role), ports)
		services = append(services, service)
		if s.Exposure == schema.ExposureInternal {
			continue
		}
		expose(service, settingsOf(c.spec.Service, s.Name, clients[0]))
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

// clientServices are the names of a component's Services for clients, in the order of the plugin.
func clientServices(declared *schema.Component) []string {
	var names []string
	for _, s := range declared.Services {
		if s.Exposure != schema.ExposureInternal {
			names = append(names, s.Name)
		}
	}
	return names
}

// settingsOf are what the spec says of a Service for clients, nil for nothing: of the first one directly, of another by
// its name.
func settingsOf(spec *platformv1.ServiceExposure, name, first string) *platformv1.ServiceSettings {
	if spec == nil {
		return nil
	}
	if name == first {
		return &spec.ServiceSettings
	}
	i := slices.IndexFunc(spec.Overrides, func(o platformv1.ServiceOverride) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &spec.Overrides[i].ServiceSettings
}

// expose gives a Service what the spec says of it.
func expose(service *corev1.Service, settings *platformv1.ServiceSettings) {
	if settings == nil {
		return
	}
	if settings.Type != "" {
		service.Spec.Type = settings.Type
	}
	service.Annotations = maps.Clone(settings.Annotations)
	service.Spec.LoadBalancerSourceRanges = slices.Clone(settings.LoadBalancerSourceRanges)
	service.Spec.ExternalTrafficPolicy = settings.ExternalTrafficPolicy
}

// fillService takes up how clients reach a component, or says why it cannot be had.
func fillService(spec *platformv1.ComponentSpec, declared *schema.Component,
	wanted *platformv1.ServiceExposure) *Refusal {
	clients := clientServices(declared)
	switch {
	case len(clients) == 0 && wanted != nil:
		return refuse(platformv1.ReasonInvalidSpec,
			"component %q has service set: it has no Service for clients, take it out", spec.Component)
	case len(clients) == 0:
		return nil
	case wanted == nil:
		spec.Service = &platformv1.ServiceExposure{}
	default:
		spec.Service = wanted.DeepCopy()
	}
	if spec.Service.Type == "" {
		spec.Service.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Service.Overrides {
		override := &spec.Service.Overrides[i]
		if !slices.Contains(clients[1:], override.Name) {
			return refuse(platformv1.ReasonInvalidSpec, "component %q has service.overrides for %q: %s",
				spec.Component, override.Name, overridable(clients[1:]))
		}
		if override.Type == "" {
			override.Type = corev1.ServiceTypeClusterIP
		}
	}
	return nil
}

// overridable says for which Services there can be overrides.
func overridable(names []string) string {
	if len(names) == 0 {
		return "it has one Service for clients, whose settings are those of service itself"
	}
	return fmt.Sprintf("its other Services for clients are %q", names)
}

func (c *context) service(name string, selector map[string]string, ports []schema.Port) *corev1.Service {
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.owner.Namespace, Labels: c.labels()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: selector},
	}
	if c.spec.Service != nil {
		service.Spec.IPFamilies = slices.Clone(c.spec.Service.IPFamilies)
		service.Spec.IPFamilyPolicy = c.spec.Service.IPFamilyPolicy
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
	return c.declared.Failover != nil && (c.spec.Failover == nil || c.bundle.Alone(c.spec.Component, c.spec.Topology)) &&
		slices.ContainsFunc(c.declared.Roles, func(r schema.Role) bool {
			return r.Name == role && r.Access != platformv1.RoleReadWrite
		})
}
