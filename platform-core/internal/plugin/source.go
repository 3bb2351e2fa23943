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
	// Plugin and Version that it belongs to, from its label and its name. The name may write the version with a leading v;
	// Version has none.
	Plugin  string
	Version string
	// Duplicate is the name of another ConfigMap that holds the same part, as where one writes the version with a v and
	// the other without.
	Duplicate string
	// DefaultDomain is what a manifest without domain means: the domain of the operator that reads it.
	DefaultDomain string
	// Immutable says whether the ConfigMap is marked immutable. One that is not is refused.
	Immutable bool
	// Data by key.
	Data map[string]string
}

// SourceName returns the name of the ConfigMap that holds a part: "<plugin>-<part>-<version>".
func SourceName(plugin string, part Part, version string) string {
	return plugin + "-" + string(part) + "-" + version
}

// names says whether a text is the name of the ConfigMap of this part, its version written with or without a leading v.
func (s Source) names(text string) bool {
	prefix := SourceName(s.Plugin, s.Part, "")
	version, ok := strings.CutPrefix(text, prefix)
	return ok && platformv1.CanonicalPluginVersion(version) == s.Version
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
		if version = platformv1.CanonicalPluginVersion(version); !ok || version == "" {
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
