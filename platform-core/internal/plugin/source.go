// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Parts lists every part of a bundle, the manifest first.
func Parts() []Part {
	return []Part{PartManifest, PartComponents, PartPodTemplates, PartParams, PartOperations}
}

// Source is one ConfigMap of a bundle, as it was read.
type Source struct {
	// Name and Namespace of the ConfigMap.
	Name      string
	Namespace string
	// Part that it holds.
	Part Part
	// Plugin and Version that it belongs to, from its label and its name.
	Plugin  string
	Version string
	// Immutable says whether the ConfigMap is marked immutable. One that is not is refused.
	Immutable bool
	// Data by key.
	Data map[string]string
}

// SourceName returns the name of the ConfigMap that holds a part: "<plugin>-<part>-<version>".
func SourceName(plugin string, part Part, version string) string {
	return plugin + "-" + string(part) + "-" + version
}

// ParseSource reads a ConfigMap as a part of a plugin. The second result is
// false when it is none: it lacks the label platform.zeroinfra.github.com/plugin, or its
// name is not "<label's value>-<part>-<version>".
func ParseSource(cm *corev1.ConfigMap) (Source, bool) {
	name := cm.Labels[platformv1.PluginLabel]
	rest, ok := strings.CutPrefix(cm.Name, name+"-")
	if name == "" || !ok {
		return Source{}, false
	}
	for _, part := range Parts() {
		version, ok := strings.CutPrefix(rest, string(part)+"-")
		if !ok || version == "" {
			continue
		}
		return Source{
			Name:      cm.Name,
			Namespace: cm.Namespace,
			Part:      part,
			Plugin:    name,
			Version:   version,
			Immutable: cm.Immutable != nil && *cm.Immutable,
			Data:      cm.Data,
		}, true
	}
	return Source{}, false
}
