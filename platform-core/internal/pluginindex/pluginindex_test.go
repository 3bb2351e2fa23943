// SPDX-License-Identifier: Apache-2.0

package pluginindex_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
)

func TestPluginChanged(t *testing.T) {
	was := &platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "redis-1.0.0", ResourceVersion: "1",
		Labels: map[string]string{platformv1.DomainLabel: "database"}}}
	was.Status = platformv1.PluginStatus{Digest: "sha256:1", Instances: 1}
	for name, tc := range map[string]struct {
		change func(p *platformv1.Plugin)
		want   bool
	}{
		"another instance": {func(p *platformv1.Plugin) { p.Status.Instances = 2 }, false},
		"nothing":          {func(*platformv1.Plugin) {}, false},
		"another bundle":   {func(p *platformv1.Plugin) { p.Status.Digest = "sha256:2" }, true},
		"a refused bundle": {func(p *platformv1.Plugin) { p.Status.Errors = []string{"manifest.yaml:1: no name"} }, true},
		"another operator": {func(p *platformv1.Plugin) { p.Labels[platformv1.DomainLabel] = "message" }, true},
		"domain":           {func(p *platformv1.Plugin) { p.Spec.Domain = "message" }, true},
		"one more, refused": {func(p *platformv1.Plugin) { p.Status.Instances, p.Status.Errors = 2, []string{"no name"} },
			true},
	} {
		is := was.DeepCopy()
		is.ResourceVersion = "2"
		tc.change(is)
		if got := pluginindex.PluginChanged.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != tc.want {
			t.Errorf("%s: passed is %v", name, got)
		}
	}
}
