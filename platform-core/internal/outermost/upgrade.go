// SPDX-License-Identifier: Apache-2.0

package outermost

import (
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// upgradable says why an instance cannot be made from the version of its plugin that an edit asks for; empty when it
// can, or the edit is of something else. A version that is not loaded is refused, where it would only hold up one who
// asks for a new instance.
func (e Editor) upgradable(live *platformv1.Application, field opsflow.FieldEdit) string {
	if field.Field != opsflow.FieldPluginVersion {
		return ""
	}
	moved := live.DeepCopy()
	moved.Spec.PluginVersion = fmt.Sprint(field.Value)
	state, _ := e.Index.Get(moved.Spec.Plugin, moved.Spec.PluginVersion)
	if refusal := accept.Plugin(moved, state); refusal != nil {
		return refusal.Message
	}
	if domain := state.Bundle.Manifest.Domain; domain != e.Domain {
		return fmt.Sprintf("plugin %s version %s is of domain %q, and the instance is of %q", moved.Spec.Plugin,
			moved.Spec.PluginVersion, domain, e.Domain)
	}
	return ""
}

// note writes the version of the plugin where a kind has no field for it.
func (ch *Change) note(version string) {
	annotations := ch.After.GetAnnotations()
	was := platformv1.CanonicalPluginVersion(annotations[platformv1.PluginVersionAnnotation])
	if was == version || was == "" && platformv1.CanonicalPluginVersion(ch.Live.Spec.PluginVersion) == version {
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[platformv1.PluginVersionAnnotation] = version
	ch.After.SetAnnotations(annotations)
	if was == "" {
		was = ch.Live.Spec.PluginVersion
	}
	ch.Changed = append(ch.Changed, fmt.Sprintf("%s: %s → %s", platformv1.PluginVersionAnnotation, was, version))
}
