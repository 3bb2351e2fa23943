// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

func (p *checker) checkContainers(spec document.Path, pod *corev1.PodSpec, volumes map[string]bool) {
	mounted, seen, found, exports := map[string]bool{}, map[string]bool{}, false, false
	check := func(path document.Path, list []corev1.Container) {
		for i := range list {
			c := &list[i]
			at := path.Index(i)
			if seen[c.Name] || slices.Contains(engineContainers, c.Name) {
				p.wrong(at.With("name"), "is %q, which is taken: names must differ", c.Name)
			}
			seen[c.Name] = true
			p.checkContainer(at, c)
			for j, m := range c.VolumeMounts {
				mounted[m.Name] = true
				p.checkMount(at.With("volumeMounts").Index(j), m, volumes)
			}
		}
	}
	check(spec.With("initContainers"), pod.InitContainers)
	check(spec.With("containers"), pod.Containers)
	for i := range pod.Containers {
		if pod.Containers[i].Name == p.component.Container {
			found = true
			p.unset(spec.With("containers").Index(i), "image", "imagePullPolicy", "command", "args", "ports", "resources",
				"livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "stdin", "tty", "stdinOnce",
				"terminationMessagePath", "restartPolicy", "resizePolicy")
			continue
		}
		if m := p.component.Monitoring; m != nil && pod.Containers[i].Name == m.Exporter {
			exports = true
			p.unset(spec.With("containers").Index(i), "ports")
		}
		if pod.Containers[i].Image == "" {
			p.wrong(spec.With("containers").Index(i).With("image"),
				"is missing: the engine knows the image of container %q only", p.component.Container)
		}
	}
	for i := range pod.InitContainers {
		if pod.InitContainers[i].Image == "" {
			p.wrong(spec.With("initContainers").Index(i).With("image"), "is missing")
		}
	}
	if !found {
		p.wrong(spec.With("containers"), "has no container %q, which component %q names", p.component.Container,
			p.component.Name)
	}
	if m := p.component.Monitoring; m != nil && m.Exporter != "" && !exports {
		p.wrong(spec.With("containers"), "has no container %q, which monitoring.exporter of component %q names", m.Exporter,
			p.component.Name)
	}
	for _, v := range p.component.Volumes {
		if !mounted[v.Name] {
			p.wrong(spec.With("containers"), "mounts the volume %q of component %q nowhere", v.Name, p.component.Name)
		}
	}
}

func (p *checker) checkContainer(path document.Path, c *corev1.Container) {
	for i, env := range c.Env {
		if env.Name == "POD_NAME" || env.Name == "POD_NAMESPACE" {
			p.wrong(path.With("env").Index(i), "has the name %s: it is set by the engine", env.Name)
		}
	}
	for i, port := range c.Ports {
		if port.HostPort != 0 || port.HostIP != "" {
			p.wrong(path.With("ports").Index(i), "takes a port of the node: that is not allowed")
		}
	}
	s := c.SecurityContext
	if s == nil {
		return
	}
	at := path.With("securityContext")
	isTrue := func(b *bool) bool { return b != nil && *b }
	isFalse := func(b *bool) bool { return b != nil && !*b }
	const unconfined = "is not allowed: the pod would not be confined (Pod Security restricted)"
	if isTrue(s.Privileged) {
		p.wrong(at.With("privileged"), unconfined)
	}
	if isTrue(s.AllowPrivilegeEscalation) {
		p.wrong(at.With("allowPrivilegeEscalation"), unconfined)
	}
	if s.Capabilities != nil && len(s.Capabilities.Add) > 0 {
		p.wrong(at.With("capabilities").With("add"), unconfined)
	}
	if isFalse(s.ReadOnlyRootFilesystem) {
		p.wrong(at.With("readOnlyRootFilesystem"), "is false: mount an emptyDir volume where the process writes")
	}
	if isFalse(s.RunAsNonRoot) || s.RunAsUser != nil && *s.RunAsUser == 0 {
		p.wrong(at, "runs as root: pods never do")
	}
	p.checkSeccomp(at.With("seccompProfile"), s.SeccompProfile)
	p.refused(at, "the pod would not be confined (Pod Security restricted)", "procMount", "seLinuxOptions",
		"windowsOptions", "appArmorProfile")
}

func (p *checker) checkMount(path document.Path, m corev1.VolumeMount, volumes map[string]bool) {
	if !volumes[m.Name] {
		known := make([]string, 0, len(volumes))
		for name := range volumes {
			known = append(known, name)
		}
		slices.Sort(known)
		p.wrong(path.With("name"), "is %q, which is not there: there is %s", m.Name, strings.Join(known, ", "))
	}
	if logs := p.component.Logs; logs != nil && m.MountPath == logs.Path {
		p.wrong(path.With("mountPath"), "is %q, where the engine mounts the volume of the access logs: take it out",
			m.MountPath)
	}
	if added := p.component.Additional(); added != nil &&
		(m.MountPath == added.Path || strings.HasPrefix(m.MountPath, added.Path+"/")) {
		p.wrong(path.With("mountPath"), "is %q, where the engine mounts volumes that a user adds: take it out", m.MountPath)
	}
	for _, mount := range p.component.Mounts {
		if m.MountPath == mount.Path {
			p.wrong(path.With("mountPath"), "is %q, where the engine mounts %q of the component: take it out",
				m.MountPath, mount.Name)
		}
	}
	if m.MountPath == "/zeroinfra" || strings.HasPrefix(m.MountPath, "/zeroinfra/") {
		p.wrong(path.With("mountPath"), "is %q: what is below /zeroinfra is the engine's", m.MountPath)
	}
}
