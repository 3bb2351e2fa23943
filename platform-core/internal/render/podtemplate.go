// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// graceSeconds is what the process manager has for itself after the process has stopped.
const graceSeconds = 5

// agentImagePath is the agent's binary in its own image.
const agentImagePath = "/agent"

// graceOf is how long a pod has to end, in seconds: the process has its time from the stop signal on, and the hook
// before that one of its own, up to plan.MaxPodHookSeconds. It is no part of the revision: a pod that is there keeps
// what it was made with.
func graceOf(p *plan.Plan) int64 {
	grace := cmp.Or(p.Process.Stop.TimeoutSeconds, plugin.DefaultStopTimeoutSeconds) + graceSeconds
	if hook := p.Process.Hook(plan.PreStop); hook != nil {
		grace += min(cmp.Or(hook.TimeoutSeconds, plan.DefaultHookSeconds), plan.MaxPodHookSeconds)
	}
	return int64(grace)
}

// inject completes a plugin's pod template with all that is the engine's.
func (c *setContext) inject(t *corev1.PodTemplateSpec, p *plan.Plan, exporter []plan.EnvVar) *Refusal {
	if c.settings.AgentImage == "" {
		return refuse(platformv1.ReasonInvalidSpec, "the operator's settings name no agent image: set agentImage")
	}
	c.injectMeta(t)
	spec := &t.Spec
	names := map[string]string{podtemplate.StatusContainer: c.declared.Images[c.spec.Version]}
	if c.needsOps() {
		names[podtemplate.OpsContainer] = c.declared.Images[c.spec.Version]
	}
	if c.tellsMetrics() {
		names[podtemplate.MetricsContainer] = c.declared.Images[c.spec.Version]
	}
	spec.ServiceAccountName = c.name
	spec.AutomountServiceAccountToken = new(false)
	spec.EnableServiceLinks = new(false)
	spec.RestartPolicy = corev1.RestartPolicyAlways
	spec.Subdomain = plugin.HeadlessServiceName(c.owner.Application, c.spec.Component)
	spec.TerminationGracePeriodSeconds = new(max(graceOf(p), ptr.Deref(spec.TerminationGracePeriodSeconds, 0)))
	image := c.image(c.declared.Images[c.spec.Version])
	for i := range spec.InitContainers {
		container := &spec.InitContainers[i]
		names[container.Name], container.Image = container.Image, c.image(container.Image)
	}
	for i := range spec.Containers {
		container := &spec.Containers[i]
		if container.Name == c.declared.Container {
			names[container.Name] = c.declared.Images[c.spec.Version]
			c.injectProcess(container, image)
			continue
		}
		names[container.Name], container.Image = container.Image, c.image(container.Image)
		if container.Name == c.exporter() {
			c.injectExporter(container, exporter)
		}
	}
	if err := c.injectImageNames(t, names); err != nil {
		return refuse(platformv1.ReasonInvalidSpec, "component %q cannot be rendered: %v", c.spec.Component, err)
	}
	// The agent's binary is there before any init container of the plugin's runs.
	spec.InitContainers = append([]corev1.Container{c.initContainer(p)}, spec.InitContainers...)
	spec.Containers = append(spec.Containers, c.statusContainer(image))
	if c.needsOps() {
		spec.Containers = append(spec.Containers, c.opsContainer(image))
	}
	if c.tellsMetrics() {
		spec.Containers = append(spec.Containers, c.metricsContainer(image))
	}
	spec.Volumes = append(spec.Volumes, c.volumes()...)
	c.tellZone(t)
	c.mountArchive(t)
	c.mount(t)
	c.mountAdditional(t)
	confine(spec)
	c.settings.Pods.completeInstance(t, c.declared.Container)
	return nil
}

// injectImageNames notes the plugin's names of the images: another registry in front of them is no other image.
func (c *setContext) injectImageNames(t *corev1.PodTemplateSpec, names map[string]string) error {
	data, err := canonical(names)
	if err != nil {
		return err
	}
	t.Annotations[platformv1.PluginImagesAnnotation] = placeholder.Escape(string(data))
	return nil
}

func (c *setContext) injectMeta(t *corev1.PodTemplateSpec) {
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	maps.Copy(t.Labels, c.labels())
	t.Labels[platformv1.SetLabel] = c.set.name
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	if c.bundle.UsesPodFQDN(c.declared) {
		t.Annotations[domainAnnotation] = c.headlessDomain()
	}
}

// image applies the operator's registry to the name of an image. A registry that the name
// begins with (it has a dot or a colon, or is localhost) is replaced.
func (c *context) image(name string) string {
	if c.settings.ImageRegistry == "" {
		return name
	}
	if first, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		name = rest
	}
	return strings.TrimSuffix(c.settings.ImageRegistry, "/") + "/" + name
}

// injectProcess makes the process manager the entry of the middleware's container.
func (c *setContext) injectProcess(container *corev1.Container, image string) {
	container.Image = image
	container.Command = []string{plan.AgentPath, "run"}
	container.Resources = *c.set.resources.DeepCopy()
	container.Env = append(c.podIdentity(), container.Env...)
	for _, port := range c.ports() {
		if port.Access == schema.PortMetrics && c.declared.Monitoring.Beside() {
			continue
		}
		container.Ports = append(container.Ports, tcpPort(port.Name, port.Port))
	}
	container.Ports = append(container.Ports, tcpPort("agent", plan.ProcessPort))
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: volumeBin, MountPath: plan.BinDir, ReadOnly: true},
		corev1.VolumeMount{Name: volumeRun, MountPath: plan.RunDir},
		corev1.VolumeMount{Name: volumeConfig, MountPath: plan.ConfigDir},
		corev1.VolumeMount{Name: volumePlan, MountPath: plan.PlanDir, ReadOnly: true},
		corev1.VolumeMount{Name: volumeTLS, MountPath: plan.TLSDir, ReadOnly: true},
	)
	c.mountSecrets(container)
	c.mountCertificates(container)
	if c.spec.Logs.On() {
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: podtemplate.LogsVolume, MountPath: c.declared.Logs.Path})
	}
}

func (c *context) mountCertificates(container *corev1.Container) {
	if c.spec.TLS.On() {
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: volumeCerts, MountPath: plan.CertificatesDir, ReadOnly: true})
	}
}

func (c *context) mountSecrets(container *corev1.Container) {
	if len(c.declared.Credentials) > 0 {
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: volumeSecrets, MountPath: plan.SecretsDir, ReadOnly: true})
	}
}

// confine makes a pod pass the restricted level of Pod Security, with a read-only root in each container.
func confine(spec *corev1.PodSpec) {
	pod := spec.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
		spec.SecurityContext = pod
	}
	pod.RunAsNonRoot = new(true)
	pod.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	if pod.FSGroupChangePolicy == nil {
		pod.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			s := list[i].SecurityContext
			if s == nil {
				s = &corev1.SecurityContext{}
				list[i].SecurityContext = s
			}
			s.AllowPrivilegeEscalation = new(false)
			s.ReadOnlyRootFilesystem = new(true)
			s.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
		}
	}
}

func tcpPort(name string, port int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}
}
