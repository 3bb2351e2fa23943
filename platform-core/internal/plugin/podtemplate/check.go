// SPDX-License-Identifier: Apache-2.0

// Package podtemplate checks the pod templates of plugins, and has the names that the engine takes in every pod.
package podtemplate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Names that the engine takes in every pod.
const (
	// InitContainer copies the agent's binary into the pod.
	InitContainer = "agent-init"
	// StatusContainer runs the status agent.
	StatusContainer = "status"
	// OpsContainer runs the ops agent, where there are actions.
	OpsContainer = "ops"
	// MetricsContainer is an ops agent that tells metrics, where these are wanted and come from queries.
	MetricsContainer = "metrics"
	// VolumePrefix begins the names of the engine's volumes.
	VolumePrefix = "zeroinfra-"
	// LogsVolume is the name of the volume that access logs go to, where a user asks for one.
	LogsVolume = "logs"
)

// engineContainers are the names of the containers that the engine adds.
var engineContainers = []string{InitContainer, StatusContainer, OpsContainer, MetricsContainer}

// checker checks one template.
type checker struct {
	template  *document.Document
	component *schema.Component
	problems  []document.Problem
}

// Check returns the problems of a pod template that was rendered for a component. It sets nothing that is the engine's,
// has all names that the component refers to, and the pod passes the restricted level of Pod Security. template is the
// document that it was rendered from, which gives the lines.
func Check(template *document.Document, component *schema.Component,
	rendered *corev1.PodTemplateSpec) []document.Problem {
	p := &checker{template: template, component: component}
	p.check(rendered)
	return p.problems
}

func (p *checker) wrong(path document.Path, format string, args ...any) {
	p.problems = append(p.problems, document.Problem{Line: p.template.Line(path),
		Message: fmt.Sprintf("%s %s", path, fmt.Sprintf(format, args...))})
}

// unset refuses fields that the engine sets.
func (p *checker) unset(path document.Path, fields ...string) {
	for _, field := range fields {
		if p.template.Has(path.With(field)) {
			p.wrong(path.With(field), "is set by the engine: take it out")
		}
	}
}

// refused refuses fields that a plugin cannot have.
func (p *checker) refused(path document.Path, reason string, fields ...string) {
	for _, field := range fields {
		if p.template.Has(path.With(field)) {
			p.wrong(path.With(field), "is not allowed: %s", reason)
		}
	}
}

func (p *checker) check(t *corev1.PodTemplateSpec) {
	metadata, spec := document.Path{"metadata"}, document.Path{"spec"}
	whole, _ := p.template.Value().(map[string]any)
	fields, _ := whole["metadata"].(map[string]any)
	for field := range fields {
		if field != "labels" && field != "annotations" {
			p.wrong(metadata.With(field), "is set by the engine: a template has labels and annotations")
		}
	}
	p.checkKeys(metadata.With("labels"), t.Labels)
	p.checkKeys(metadata.With("annotations"), t.Annotations)
	p.unset(spec, "serviceAccountName", "serviceAccount", "automountServiceAccountToken", "enableServiceLinks", "hostname",
		"subdomain", "nodeName", "restartPolicy", "setHostnameAsFQDN", "shareProcessNamespace")
	p.refused(spec, "the pod would not be confined (Pod Security restricted)", "hostNetwork", "hostPID", "hostIPC",
		"hostUsers")
	p.refused(spec, "pods are made without it", "ephemeralContainers", "activeDeadlineSeconds", "resources", "overhead",
		"os")
	p.checkPodSecurity(spec.With("securityContext"), t.Spec.SecurityContext)
	volumes := p.checkVolumes(spec.With("volumes"), t.Spec.Volumes)
	p.checkContainers(spec, &t.Spec, volumes)
}

func (p *checker) checkKeys(path document.Path, keys map[string]string) {
	reserved := []string{platformv1.ManagedByLabel, platformv1.InstanceLabel, platformv1.NameLabel}
	for key := range keys {
		if strings.HasPrefix(key, platformv1.GroupVersion.Group+"/") || slices.Contains(reserved, key) {
			p.wrong(path.With(key), "is set by the engine: take it out")
		}
	}
}

func (p *checker) checkPodSecurity(path document.Path, s *corev1.PodSecurityContext) {
	if s == nil || s.RunAsUser == nil || *s.RunAsUser == 0 {
		p.wrong(path.With("runAsUser"), "must be the user of the image, and not 0: pods never run as root")
		return
	}
	if s.FSGroup == nil || *s.FSGroup == 0 {
		p.wrong(path.With("fsGroup"), "must be the group that the volumes are for, and not 0")
	}
	if s.RunAsNonRoot != nil && !*s.RunAsNonRoot {
		p.wrong(path.With("runAsNonRoot"), "is false: pods never run as root")
	}
	p.checkSeccomp(path.With("seccompProfile"), s.SeccompProfile)
	p.refused(path, "the pod would not be confined (Pod Security restricted)", "sysctls", "windowsOptions",
		"seLinuxOptions", "appArmorProfile")
}

func (p *checker) checkSeccomp(path document.Path, s *corev1.SeccompProfile) {
	if s != nil && s.Type != corev1.SeccompProfileTypeRuntimeDefault {
		p.wrong(path.With("type"), "is %q: it must be RuntimeDefault", s.Type)
	}
}

// checkVolumes returns the names that containers can mount.
func (p *checker) checkVolumes(path document.Path, list []corev1.Volume) map[string]bool {
	known := map[string]bool{}
	for _, v := range p.component.Volumes {
		known[v.Name] = true
	}
	added := p.component.AdditionalNames()
	for i, v := range list {
		at := path.Index(i)
		switch {
		case slices.Contains(added, v.Name):
			p.wrong(at.With("name"), "is %q, which is a volume that a user adds: names must differ", v.Name)
		case strings.HasPrefix(v.Name, VolumePrefix):
			p.wrong(at.With("name"), "is %q: the beginning %s is the engine's", v.Name, VolumePrefix)
		case v.Name == LogsVolume && p.component.Logs != nil:
			p.wrong(at.With("name"), "is %q, which is the volume that the engine adds for access logs: names must differ",
				v.Name)
		case known[v.Name]:
			p.wrong(at.With("name"), "is %q, which another volume has: names must differ", v.Name)
		}
		known[v.Name] = true
		if v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil {
			p.wrong(at, "is of a kind that is not allowed: a template has emptyDir, configMap, secret, downwardAPI and "+
				"projected volumes")
		}
	}
	return known
}
