// SPDX-License-Identifier: Apache-2.0

package framework

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

// OriginalVersion is the version of the plugins redis and postgresql that the chart installs and that objects begin
// with.
const OriginalVersion = "1.0.0"

// componentsFile is the key of the part components.
const componentsFile = "components.yaml"

// Bundle is a version of a plugin that a test makes out of the installed one.
type Bundle struct {
	*Namespace
	PluginName, Version string
	// Parts by the name of the part: manifest, components, podtemplates, params and operations.
	Parts map[string]map[string]string
}

// NewBundle is NewBundleOf the plugin redis.
func (s *Namespace) NewBundle() *Bundle { return s.NewBundleOf("redis") }

// NewBundleOf copies the installed bundle of a plugin under another version, in memory. Its ConfigMaps, once made, are
// deleted at the end of the test.
func (s *Namespace) NewBundleOf(plugin string) *Bundle {
	s.Helper()
	var list corev1.ConfigMapList
	if err := Cluster.Client.List(s.Ctx, &list, client.InNamespace(OperatorNamespace),
		client.MatchingLabels{platformv1.PluginLabel: plugin}); err != nil {
		s.Fatal(err)
	}
	b := &Bundle{Namespace: s, PluginName: plugin, Version: OriginalVersion + "-" + rand.String(6),
		Parts: map[string]map[string]string{}}
	for _, part := range list.Items {
		name, found := strings.CutSuffix(strings.TrimPrefix(part.Name, plugin+"-"), "-"+OriginalVersion)
		if !found {
			continue
		}
		b.Parts[name] = maps.Clone(part.Data)
	}
	if len(b.Parts) != 5 {
		s.Fatalf("the plugin %s version %s has parts %v, want five", plugin, OriginalVersion, SortedKeys(b.Parts))
	}
	for key, value := range b.Parts["manifest"] {
		b.Parts["manifest"][key] = strings.ReplaceAll(value, OriginalVersion, b.Version)
	}
	s.Cleanup(b.RemoveAll)
	return b
}

// pluginName is the name of the Plugin object of the bundle.
func (b *Bundle) pluginName() string { return b.PluginName + "-" + b.Version }

// PartName is the name of the ConfigMap of a part.
func (b *Bundle) PartName(part string) string { return b.PluginName + "-" + part + "-" + b.Version }

// Replace changes the first occurrence of a text in components.yaml; it has to be there.
func (b *Bundle) Replace(old, replacement string) {
	b.Helper()
	b.mustHold(old)
	b.Parts["components"][componentsFile] = strings.Replace(b.Parts["components"][componentsFile], old, replacement, 1)
}

// ReplaceAll changes all occurrences of a text in components.yaml; it has to be there.
func (b *Bundle) ReplaceAll(old, replacement string) {
	b.Helper()
	b.mustHold(old)
	b.Parts["components"][componentsFile] = strings.ReplaceAll(b.Parts["components"][componentsFile], old, replacement)
}

func (b *Bundle) mustHold(text string) {
	b.Helper()
	if !strings.Contains(b.Parts["components"][componentsFile], text) {
		b.Fatalf("%s does not hold %q", componentsFile, text)
	}
}

// RenameOperation gives a template another name.
func (b *Bundle) RenameOperation(from, to string) {
	b.Helper()
	operations := b.Parts["operations"]
	text, found := operations[from+".yaml"]
	if !found {
		b.Fatalf("the plugin %s has no Operation template %q", b.PluginName, from)
	}
	delete(operations, from+".yaml")
	operations[to+".yaml"] = strings.Replace(text, "name: "+from, "name: "+to, 1)
}

// PositionOf is where an error in components.yaml has to point: at the first line that holds a text.
func (b *Bundle) PositionOf(text string) string {
	b.Helper()
	before, _, found := strings.Cut(b.Parts["components"][componentsFile], text)
	if !found {
		b.Fatalf("%s does not hold %q", componentsFile, text)
	}
	return fmt.Sprintf("%s/%s:%d:", b.PartName("components"), componentsFile, strings.Count(before, "\n")+1)
}

// Install makes the ConfigMaps of the given parts, or of all.
func (b *Bundle) Install(parts ...string) {
	b.Helper()
	if len(parts) == 0 {
		parts = slices.Sorted(maps.Keys(b.Parts))
	}
	for _, part := range parts {
		err := Cluster.Client.Create(b.Ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: b.PartName(part),
				Labels: map[string]string{platformv1.PluginLabel: b.PluginName}},
			Immutable: ptr.To(true), Data: b.Parts[part],
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// Remove deletes the ConfigMaps of the given parts.
func (b *Bundle) Remove(parts ...string) {
	b.Helper()
	for _, part := range parts {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: b.PartName(part)}}
		if err := Cluster.Client.Delete(context.WithoutCancel(b.Ctx), configMap); client.IgnoreNotFound(err) != nil {
			b.Error(err)
		}
	}
}

// RemoveAll deletes the ConfigMaps of all parts.
func (b *Bundle) RemoveAll() {
	b.Helper()
	b.Remove(SortedKeys(b.Parts)...)
}

// ExpectAccepted waits until the Plugin object says that the bundle is loaded.
func (b *Bundle) ExpectAccepted() {
	b.Helper()
	took := b.Eventually(ErrorTimeout, fmt.Sprintf("plugin %q is accepted", b.pluginName()), func() error {
		plugin, err := b.Plugin()
		if err == nil && !meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) {
			err = fmt.Errorf("it says: %s", Describe(plugin.Status.Conditions))
		}
		return err
	})
	b.Logf("bundle accepted after %s", FormatSeconds(took))
}

// ExpectRefused waits until the Plugin object says that the bundle is refused, with all of the texts: while its parts
// come one by one, it is refused for what is not yet there.
func (b *Bundle) ExpectRefused(texts ...string) {
	b.Helper()
	var errors string
	took := b.Eventually(ErrorTimeout, fmt.Sprintf("plugin %q is refused", b.pluginName()), func() error {
		plugin, err := b.Plugin()
		if err == nil && (!meta.IsStatusConditionFalse(plugin.Status.Conditions, platformv1.AcceptedCondition) ||
			len(plugin.Status.Errors) == 0) {
			err = fmt.Errorf("it says: %s", Describe(plugin.Status.Conditions))
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
	shown := (&Namespace{T: b.T, Ctx: b.Ctx, Failures: &Failures{}}).TableColumns(
		platformv1.GroupVersion.WithResource("plugins"), b.pluginName())
	if shown["Accepted"] != "False" || shown["Message"] == "" {
		b.Errorf("kubectl get plugins -o wide shows %v", shown)
	}
	b.Logf("bundle refused after %s: %s", FormatSeconds(took), errors)
}

// Plugin reads the Plugin object of the bundle.
func (b *Bundle) Plugin() (*platformv1.Plugin, error) {
	plugin := &platformv1.Plugin{}
	return plugin, Cluster.Client.Get(b.Ctx, client.ObjectKey{Name: b.pluginName()}, plugin)
}

// Setting has a Redis run on a bundle.
func (b *Bundle) Setting() Setting { return WithPluginVersion(b.Version) }

// WithPluginVersion has a Redis run on a version of the plugin.
func WithPluginVersion(version string) Setting {
	return func(spec *databasev1.RedisSpec) { spec.PluginVersion = platformv1.PluginVersion(version) }
}
