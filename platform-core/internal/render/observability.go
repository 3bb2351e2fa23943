// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// PodMonitorKind is the Prometheus Operator's kind of pods whose metrics are read.
var PodMonitorKind = kubeschema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"}

const (
	// minLogsVolume is the smallest volume of access logs that is worth having.
	minLogsVolume = 16 << 20
	// logsShare of a volume, in percent, is what access logs may take: the rest is for what is written until a file is
	// renamed.
	logsShare = 80
)

// monitoring is what a component has of it: nothing when it is off.
func monitoring(wanted *platformv1.Monitoring) *platformv1.Monitoring {
	if !wanted.On() {
		return nil
	}
	return wanted.DeepCopy()
}

// logs is what a component has of them: nothing when they go to the standard output.
func logs(wanted *platformv1.Logs) *platformv1.Logs {
	if !wanted.On() {
		return nil
	}
	return wanted.DeepCopy()
}

func checkMonitoring(b *plugin.Bundle, spec *platformv1.ComponentSpec, declared *schema.Component) *Refusal {
	if !spec.Monitoring.On() {
		return nil
	}
	if declared.Monitoring == nil {
		return refuse(platformv1.ReasonInvalidSpec,
			"component %q has monitoring.enabled set, and plugin %q %s declares no metrics of it: take it out",
			spec.Component, b.Manifest.Name, b.Manifest.Version)
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Monitoring.Labels)) {
		value := spec.Monitoring.Labels[key]
		switch {
		case len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0:
			return refuse(platformv1.ReasonInvalidSpec, "component %q has %q: %q in monitoring.labels, which is no label",
				spec.Component, key, value)
		case strings.HasPrefix(key, platformv1.GroupVersion.Group+"/") ||
			slices.Contains([]string{platformv1.ManagedByLabel, platformv1.InstanceLabel, platformv1.NameLabel}, key):
			return refuse(platformv1.ReasonInvalidSpec,
				"component %q has %q in monitoring.labels, which is set by the engine: take it out", spec.Component, key)
		}
	}
	return nil
}

func checkLogs(b *plugin.Bundle, spec *platformv1.ComponentSpec, declared *schema.Component) *Refusal {
	if !spec.Logs.On() {
		return nil
	}
	if declared.Logs == nil {
		return refuse(platformv1.ReasonInvalidSpec,
			"component %q has logs.volume set, and plugin %q %s declares no access logs of it: take it out",
			spec.Component, b.Manifest.Name, b.Manifest.Version)
	}
	if size := spec.Logs.Volume.Size; size.CmpInt64(minLogsVolume) < 0 {
		return refuse(platformv1.ReasonInvalidSpec, "component %q has logs.volume of size %s: it must be at least %s",
			spec.Component, size.String(), resource.NewQuantity(minLogsVolume, resource.BinarySI))
	}
	return nil
}

// ports of the component that are there with what the user asks for.
func (c *context) ports() []schema.Port {
	return c.declared.PortsFor(placeholder.Component{Monitoring: c.spec.Monitoring.On()})
}

// exporter is the container that is there only for metrics; empty when there is none.
func (c *context) exporter() string {
	if c.declared.Monitoring == nil {
		return ""
	}
	return c.declared.Monitoring.Exporter
}

// withoutExporter takes the exporter out of a template where metrics are not wanted.
func (c *context) withoutExporter(t *corev1.PodTemplateSpec) {
	if c.spec.Monitoring.On() {
		return
	}
	t.Spec.Containers = slices.DeleteFunc(t.Spec.Containers, func(container corev1.Container) bool {
		return container.Name == c.exporter()
	})
}

// exporterEnv is what the exporter's environment has from the plugin's declaration; nil without an exporter.
func (c *setContext) exporterEnv(v placeholder.Values) ([]plan.EnvVar, error) {
	if !c.spec.Monitoring.On() || c.exporter() == "" {
		return nil, nil
	}
	return c.bundle.RenderExporterEnv(c.spec.Component, v)
}

// injectExporter gives the exporter its port, its environment and the certificates. A password comes from its Secret.
func (c *setContext) injectExporter(container *corev1.Container, env []plan.EnvVar) {
	for _, port := range c.declared.Ports {
		if port.Name == c.declared.Monitoring.Port {
			container.Ports = append(container.Ports, tcpPort(port.Name, port.Port))
		}
	}
	for _, v := range env {
		// What a value holds is never a placeholder.
		injected := corev1.EnvVar{Name: v.Name, Value: placeholder.Escape(v.Value)}
		if v.Secret != nil {
			injected.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{
					Name: platformv1.CredentialNameFor(c.owner.Application, v.Secret.Credential)}, Key: plugin.SecretKeyPassword,
			}}
		}
		container.Env = append(container.Env, injected)
	}
	c.mountCertificates(container)
}

// tellsMetrics says that the pods have an ops agent that tells the metrics.
func (c *context) tellsMetrics() bool {
	return c.spec.Monitoring.On() && len(c.declared.Monitoring.Queries) > 0
}

// metricsContainer is an ops agent that asks the driver, in the middleware's own image, since that is on the node. It
// has no token.
func (c *context) metricsContainer(image string) corev1.Container {
	declared := c.declared.Monitoring
	command := []string{plan.OpsPath, "metrics", "--path", declared.PathOrDefault()}
	if declared.TLS && c.spec.TLS.On() {
		command = append(command, "--tls")
	}
	container := corev1.Container{
		Name:      podtemplate.MetricsContainer,
		Image:     image,
		Env:       c.podIdentity(),
		Resources: metricsResources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeBin, MountPath: plan.BinDir, ReadOnly: true},
			{Name: volumeRun, MountPath: plan.RunDir},
			{Name: volumePlan, MountPath: plan.PlanDir, ReadOnly: true},
		},
	}
	for _, port := range c.declared.Ports {
		if port.Name == declared.Port {
			command = append(command, "--listen", fmt.Sprintf(":%d", port.Port))
			container.Ports = []corev1.ContainerPort{tcpPort(port.Name, port.Port)}
		}
	}
	container.Command = command
	c.mountSecrets(&container)
	c.mountCertificates(&container)
	return container
}

// metricsResources of an ops agent that keeps nothing but the last answers.
func metricsResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("32Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("96Mi")},
	}
}

// podMonitor has a Prometheus read the metrics of the component's pods; nil when they are not wanted.
func (c *context) podMonitor() *unstructured.Unstructured {
	if !c.spec.Monitoring.On() {
		return nil
	}
	declared := c.declared.Monitoring
	endpoint := map[string]any{"port": declared.Port, "path": declared.PathOrDefault(), "scheme": "http"}
	if interval := c.spec.Monitoring.Interval; interval != "" {
		endpoint["interval"] = interval
	}
	if declared.TLS && c.spec.TLS.On() {
		endpoint["scheme"] = "https"
		endpoint["tlsConfig"] = map[string]any{
			"ca": map[string]any{"secret": map[string]any{
				"name": platformv1.TrustNameFor(c.owner.Application), "key": plan.CAFile,
			}},
			// Pods are reached by their address, which is in no certificate.
			"serverName": c.headlessDomain(),
		}
	}
	if token := c.metricsToken(); token != nil {
		endpoint["authorization"] = map[string]any{"type": "Bearer", "credentials": token}
	}
	monitor := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"selector":            map[string]any{"matchLabels": texts(c.selector(""))},
		"podMetricsEndpoints": []any{endpoint},
		"podTargetLabels": []any{platformv1.ApplicationLabel, platformv1.ComponentLabel, platformv1.SetLabel,
			platformv1.RoleLabel},
	}}}
	monitor.SetGroupVersionKind(PodMonitorKind)
	monitor.SetNamespace(c.owner.Namespace)
	monitor.SetName(platformv1.ComponentNameFor(c.owner.Application, c.spec.Component))
	labels := maps.Clone(c.spec.Monitoring.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, c.labels())
	monitor.SetLabels(labels)
	return monitor
}

// metricsToken names the key of a Secret that whoever reads the metrics shows; nil where the instance asks for none.
func (c *context) metricsToken() map[string]any {
	for _, credential := range c.spec.Credentials {
		if credential.Name == c.declared.Monitoring.Credential {
			return map[string]any{"name": credential.PasswordFrom.Name, "key": credential.PasswordFrom.Key}
		}
	}
	return nil
}

func texts(labels map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range labels {
		out[key] = value
	}
	return out
}

// monitorsMayReach lets those who read metrics reach their port.
func (c *context) monitorsMayReach() []networkingv1.NetworkPolicyIngressRule {
	if !c.spec.Monitoring.On() {
		return nil
	}
	i := slices.IndexFunc(c.declared.Ports, func(p schema.Port) bool { return p.Name == c.declared.Monitoring.Port })
	return []networkingv1.NetworkPolicyIngressRule{{
		From:  c.spec.NetworkPolicy.MonitoringFrom,
		Ports: []networkingv1.NetworkPolicyPort{policyPort(c.declared.Ports[i].Port)},
	}}
}

// logsPlan is what the process manager has to know of the access logs; nil when they go to the standard output.
func (c *context) logsPlan() *plan.Logs {
	if !c.spec.Logs.On() {
		return nil
	}
	declared := c.declared.Logs
	return &plan.Logs{
		Dir: declared.Path, Files: slices.Clone(declared.Files), Signal: declared.Signal,
		MaxBytes: c.spec.Logs.Volume.Size.Value() / 100 * logsShare,
	}
}

// logsVolume is claimed for each pod beside the volumes that the plugin declares.
func (c *context) logsVolume() []platformv1.SetVolume {
	if !c.spec.Logs.On() {
		return nil
	}
	wanted := c.spec.Logs.Volume
	return []platformv1.SetVolume{{
		Name:    podtemplate.LogsVolume,
		Storage: platformv1.Storage{Size: wanted.Size.DeepCopy(), StorageClassName: wanted.StorageClassName},
	}}
}
