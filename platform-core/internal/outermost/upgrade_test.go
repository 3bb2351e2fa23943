// SPDX-License-Identifier: Apache-2.0

package outermost

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A kind without a field keeps the version of the plugin in an annotation, and what is so already is no change.
func TestNote(t *testing.T) {
	for name, tc := range map[string]struct{ was, live, wanted, annotation, changed string }{
		"first":   {"", "1.0.0", "1.1.0", "1.1.0", platformv1.PluginVersionAnnotation + ": 1.0.0 → 1.1.0"},
		"next":    {"1.1.0", "1.1.0", "1.2.0", "1.2.0", platformv1.PluginVersionAnnotation + ": 1.1.0 → 1.2.0"},
		"same":    {"1.1.0", "1.1.0", "1.1.0", "1.1.0", ""},
		"lags":    {"1.1.0", "1.0.0", "1.1.0", "1.1.0", ""},
		"as made": {"", "1.0.0", "1.0.0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ch := &Change{After: &unstructured.Unstructured{Object: map[string]any{}}, Live: &platformv1.Application{}}
			ch.Live.Spec.PluginVersion = tc.live
			if tc.was != "" {
				ch.After.SetAnnotations(map[string]string{platformv1.PluginVersionAnnotation: tc.was})
			}
			ch.note(tc.wanted)
			changed := ""
			if len(ch.Changed) > 0 {
				changed = ch.Changed[0]
			}
			if got := ch.After.GetAnnotations()[platformv1.PluginVersionAnnotation]; got != tc.annotation ||
				changed != tc.changed {
				t.Errorf("the annotation is %q, and it says that it changed %q", got, changed)
			}
		})
	}
}
