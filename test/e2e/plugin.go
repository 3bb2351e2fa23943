// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Versions of the plugins redis and postgresql that the chart installs: the first one, the one before the newest, and the one that objects begin with.
const (
	originalVersion = "1.0.0"

	formerRedis, newestRedis           = "1.1.0", "1.2.0"
	formerPostgreSQL, newestPostgreSQL = "1.2.0", "1.3.0"
)

// componentsFile is the key of the part components.
const componentsFile = "components.yaml"

// bundle is a version of the plugin redis that a test makes out of the installed one.
type bundle struct {
	*space
	version string
	// parts by the name of the part: manifest, components, podtemplates, params and operations.
	parts map[string]map[string]string
}

// newBundle copies the installed bundle under another version, in memory. Its ConfigMaps, once made, are deleted at the
// end of the test.
func (s *space) newBundle() *bundle {
	s.Helper()
	var list corev1.ConfigMapList
	if err := world.client.List(s.ctx, &list, client.InNamespace(operatorNamespace), client.MatchingLabels{platformv1.PluginLabel: "redis"}); err != nil {
		s.Fatal(err)
	}
	b := &bundle{space: s, version: originalVersion + "-" + rand.String(6), parts: map[string]map[string]string{}}
	for _, part := range list.Items {
		name, found := strings.CutSuffix(strings.TrimPrefix(part.Name, "redis-"), "-"+originalVersion)
		if !found {
			continue
		}
		b.parts[name] = maps.Clone(part.Data)
	}
	if len(b.parts) != 5 {
		s.Fatalf("the plugin redis version %s has parts %v, want five", originalVersion, keysOf(b.parts))
	}
	for key, value := range b.parts["manifest"] {
		b.parts["manifest"][key] = strings.ReplaceAll(value, originalVersion, b.version)
	}
	s.Cleanup(b.removeAll)
	return b
}

// pluginName is the name of the Plugin object of the bundle.
func (b *bundle) pluginName() string { return "redis-" + b.version }

func (b *bundle) partName(part string) string { return "redis-" + part + "-" + b.version }

// replace changes one text in components.yaml; it has to be there.
func (b *bundle) replace(old, replacement string) {
	b.Helper()
	text := b.parts["components"][componentsFile]
	if !strings.Contains(text, old) {
		b.Fatalf("%s does not hold %q", componentsFile, old)
	}
	b.parts["components"][componentsFile] = strings.Replace(text, old, replacement, 1)
}

// position is where an error in components.yaml has to point: at the first line that holds a text.
func (b *bundle) position(text string) string {
	b.Helper()
	before, _, found := strings.Cut(b.parts["components"][componentsFile], text)
	if !found {
		b.Fatalf("%s does not hold %q", componentsFile, text)
	}
	return fmt.Sprintf("%s/%s:%d:", b.partName("components"), componentsFile, strings.Count(before, "\n")+1)
}

// install makes the ConfigMaps of the given parts, or of all.
func (b *bundle) install(parts ...string) {
	b.Helper()
	if len(parts) == 0 {
		parts = slices.Sorted(maps.Keys(b.parts))
	}
	for _, part := range parts {
		err := world.client.Create(b.ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: b.partName(part), Labels: map[string]string{platformv1.PluginLabel: "redis"}},
			Immutable:  ptr.To(true), Data: b.parts[part],
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// remove deletes the ConfigMaps of the given parts.
func (b *bundle) remove(parts ...string) {
	b.Helper()
	for _, part := range parts {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: b.partName(part)}}
		if err := world.client.Delete(context.WithoutCancel(b.ctx), configMap); client.IgnoreNotFound(err) != nil {
			b.Error(err)
		}
	}
}

func (b *bundle) removeAll() {
	b.Helper()
	b.remove(keysOf(b.parts)...)
}

// accepted waits until the Plugin object says that the bundle is loaded.
func (b *bundle) accepted() {
	b.Helper()
	took := b.eventually(errorIn, fmt.Sprintf("plugin %q is accepted", b.pluginName()), func() error {
		plugin, err := b.plugin()
		if err == nil && !meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) {
			err = fmt.Errorf("it says: %s", describe(plugin.Status.Conditions))
		}
		return err
	})
	b.Logf("bundle accepted after %s", seconds(took))
}

// refused waits until the Plugin object says that the bundle is refused, with all of the texts: while its parts come one by
// one, it is refused for what is not yet there.
func (b *bundle) refused(texts ...string) {
	b.Helper()
	var errors string
	took := b.eventually(errorIn, fmt.Sprintf("plugin %q is refused", b.pluginName()), func() error {
		plugin, err := b.plugin()
		if err == nil && (!meta.IsStatusConditionFalse(plugin.Status.Conditions, platformv1.AcceptedCondition) || len(plugin.Status.Errors) == 0) {
			err = fmt.Errorf("it says: %s", describe(plugin.Status.Conditions))
		}
		if err != nil {
			return err
		}
		errors = strings.Join(plugin.Status.Errors, "; ")
		for _, text := range texts {
			if !strings.Contains(errors, text) {
				return fmt.Errorf("the errors say nothing of %q: %s", text, errors)
			}
		}
		return nil
	})
	shown := (&space{T: b.T, ctx: b.ctx, failures: &failures{}}).columns(platformv1.GroupVersion.WithResource("plugins"), b.pluginName())
	if shown["Accepted"] != "False" || shown["Message"] == "" {
		b.Errorf("kubectl get plugins -o wide shows %v", shown)
	}
	b.Logf("bundle refused after %s: %s", seconds(took), errors)
}

func (b *bundle) plugin() (*platformv1.Plugin, error) {
	plugin := &platformv1.Plugin{}
	return plugin, world.client.Get(b.ctx, client.ObjectKey{Name: b.pluginName()}, plugin)
}

// of has a Redis run on a bundle.
func (b *bundle) of() setting { return ofPlugin(b.version) }

// ofPlugin has a Redis run on a version of the plugin.
func ofPlugin(version string) setting {
	return func(spec *databasev1.RedisSpec) { spec.PluginVersion = version }
}
