// SPDX-License-Identifier: Apache-2.0

package plugin

// Part is one of the five kinds of ConfigMap that a bundle consists of. The
// ConfigMap is named "<plugin>-<part>-<version>".
type Part string

// Parts of a bundle.
const (
	// PartManifest has the keys version, domain, supported-versions,
	// allowed-upgrade-from and one "<part>-ref" for each other part.
	PartManifest Part = "manifest"
	// PartComponents has the one key components.yaml.
	PartComponents Part = "components"
	// PartPodTemplates has a key "<template>.yaml" for each pod template.
	PartPodTemplates Part = "podtemplates"
	// PartParams has the keys "<parameters>.yaml" (ParameterSet) and "<parameters>.cue" (its schema) for each set of
	// parameters.
	PartParams Part = "params"
	// PartOperations has a key "<Name>.yaml" for each Operation template.
	PartOperations Part = "operations"
)

// Manifest is the content of the manifest part.
type Manifest struct {
	// Name of the plugin: the value of the label platform.zeroinfra.github.com/plugin.
	Name string
	// Version is semantic, without a leading v.
	Version string
	// Domain of the operator that loads it.
	Domain string
	// SupportedVersions of the middleware, in the order written.
	SupportedVersions []string
	// AllowedUpgradeFrom names plugin versions that an instance can come from.
	AllowedUpgradeFrom []string
	// Refs names the ConfigMap of each other part.
	Refs map[Part]string
}
