// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// spelled are the parts of the plugin redis as an operator of a domain reads them from ConfigMaps whose names have
// another version.
func spelled(t *testing.T, version, domain string) map[Part]Source {
	t.Helper()
	sources := map[Part]Source{}
	for part, source := range redisSources(t) {
		read, ok := ParseSource(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: SourceName("redis", part, version),
				Labels: map[string]string{platformv1.PluginLabel: "redis"}},
			Data: source.Data, Immutable: &source.Immutable,
		})
		if !ok {
			t.Fatalf("%s is no part of a plugin", SourceName("redis", part, version))
		}
		read.DefaultDomain = domain
		sources[part] = read
	}
	return sources
}

func TestAVersionMayHaveALeadingV(t *testing.T) {
	sources := spelled(t, "v1.0.0", "database")
	edit(t, sources, PartManifest, "version", "", "v1.0.0")
	edit(t, sources, PartManifest, "allowed-upgrade-from", "", "v0.9.0, 0.8.0")
	edit(t, sources, PartManifest, "components-ref", "", "redis-components-v1.0.0")
	bundle, errs := Load(sources)
	if bundle == nil {
		t.Fatalf("it is refused:\n%s", list(errs))
	}
	if m := bundle.Manifest; m.Version != "1.0.0" || !slices.Equal(m.AllowedUpgradeFrom, []string{"0.9.0", "0.8.0"}) {
		t.Errorf("version is %q and allowed-upgrade-from %q", m.Version, m.AllowedUpgradeFrom)
	}
	index := NewIndex()
	index.Set("redis", "v1.0.0", bundle, nil)
	for _, version := range []string{"1.0.0", "v1.0.0"} {
		if state, ok := index.Get("redis", version); !ok || state.Version != "1.0.0" {
			t.Errorf("the index has %q as %+v, %v", version, state, ok)
		}
	}
}

func TestAPartInTwoConfigMapsIsRefused(t *testing.T) {
	sources := spelled(t, "v1.0.0", "database")
	source := sources[PartParams]
	source.Duplicate = "redis-params-1.0.0"
	sources[PartParams] = source
	bundle, errs := Load(sources)
	want := `redis-params-v1.0.0: the ConfigMap "redis-params-1.0.0" holds the params part of redis 1.0.0 as well: ` +
		`delete one of them`
	if bundle != nil || len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("Load says\n%s\nwant %q", list(errs), want)
	}
}

func TestAManifestWithoutDomainIsOfTheOperatorThatReadsIt(t *testing.T) {
	for _, domain := range []string{"database", "common"} {
		sources := spelled(t, "1.0.0", domain)
		delete(sources[PartManifest].Data, "domain")
		bundle, errs := Load(sources)
		if bundle == nil || bundle.Manifest.Domain != domain {
			t.Errorf("in an operator of domain %q the bundle is %+v:\n%s", domain, bundle, list(errs))
		}
	}
	sources := spelled(t, "1.0.0", "database")
	edit(t, sources, PartManifest, "domain", "", "data")
	bundle, errs := Load(sources)
	if bundle != nil || !strings.Contains(list(errs), `domain is "data": it must be one of`) {
		t.Errorf("a domain that there is not is taken:\n%s", list(errs))
	}
}

func TestAFolderMayWriteItsVersionWithALeadingV(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	folders := fstest.MapFS{
		"v1.0.0/manifest.yaml":   file("version: 1.0.0\nsupported-versions: \"7\"\n"),
		"v1.0.0/components.yaml": file("components: []\n"),
		"1.1.0/manifest.yaml":    file("version: v1.1.0\nextends: 1.0.0\n"),
	}
	folder, errs := LoadVersion(folders, "web", "1.1.0")
	if folder == nil {
		t.Fatalf("it is refused:\n%s", list(errs))
	}
	source := folder.Sources[PartManifest]
	if _, declares := source.Data["domain"]; declares || source.Name != "web-manifest-1.1.0" ||
		source.Version != "1.1.0" || source.Data["version"] != "v1.1.0" {
		t.Errorf("the manifest is %+v", source)
	}
	if folder.Sources[PartComponents].Data["components.yaml"] == "" {
		t.Errorf("it does not extend 1.0.0: %+v", folder.Sources)
	}
}
