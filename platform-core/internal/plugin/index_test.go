// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestIndexKeepsWhatIsLoaded(t *testing.T) {
	a, b := &Bundle{Digest: "sha256:a"}, &Bundle{Digest: "sha256:b"}
	broken := []LoadError{{File: "f", Line: 3, Message: "no"}, {File: "g", Message: "gone", Missing: PartParams}}
	index := NewIndex()
	if _, ok := index.Get("redis", "1.0.0"); ok {
		t.Error("an empty index has a plugin")
	}
	for _, step := range []struct {
		name   string
		bundle *Bundle
		errs   []LoadError
		want   *Bundle
		says   string
	}{
		{"broken first", nil, broken, nil, "f:3: no"},
		{"loaded", a, nil, a, ""},
		{"broken later", nil, broken, a, "f:3: no"},
		{"mended", a, nil, a, ""},
		{"another digest", b, nil, a, "cannot change to sha256:b: give the changed plugin a new version"},
		{"back", a, nil, a, ""},
	} {
		index.Set("redis", "1.0.0", step.bundle, step.errs)
		state, ok := index.Get("redis", "1.0.0")
		if !ok || state.Bundle != step.want {
			t.Errorf("%s: bundle is %v, %v", step.name, state.Bundle, ok)
		}
		if text := list(state.Errors); (step.says == "") != (text == "") || !strings.Contains(text, step.says) {
			t.Errorf("%s: errors are %q; want %q", step.name, text, step.says)
		}
		if missing := len(state.Missing) == 1 && state.Missing[0] == PartParams; missing != (step.errs != nil) {
			t.Errorf("%s: missing is %v", step.name, state.Missing)
		}
	}
	index.Set("redis", "0.9.0", b, nil)
	index.Set("mysql", "1.0.0", nil, broken)
	var names []string
	for _, state := range index.List() {
		names = append(names, state.Name+" "+state.Version)
	}
	if got := strings.Join(names, ", "); got != "mysql 1.0.0, redis 0.9.0, redis 1.0.0" {
		t.Errorf("List is %s", got)
	}
	index.Delete("redis", "1.0.0")
	if _, ok := index.Get("redis", "1.0.0"); ok {
		t.Error("a deleted plugin is still there")
	}
	index.Set("redis", "1.0.0", b, nil)
	if state, _ := index.Get("redis", "1.0.0"); state.Bundle != b {
		t.Error("a plugin that came again is not loaded")
	}
}

func TestParseSource(t *testing.T) {
	for _, tc := range []struct {
		label, name string
		want        Source
		ok          bool
	}{
		{"redis", "redis-components-1.0.0", Source{Part: PartComponents, Plugin: "redis", Version: "1.0.0"}, true},
		{"redis-cluster", "redis-cluster-params-1.0.0-rc.1",
			Source{Part: PartParams, Plugin: "redis-cluster", Version: "1.0.0-rc.1"}, true},
		{"params", "params-params-1.0.0", Source{Part: PartParams, Plugin: "params", Version: "1.0.0"}, true},
		{"redis", "redis-components-", Source{}, false},
		{"redis", "redis-secrets-1.0.0", Source{}, false},
		{"redis", "valkey-components-1.0.0", Source{}, false},
		{"", "redis-components-1.0.0", Source{}, false},
	} {
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: tc.name, Namespace: "ns",
				Labels: map[string]string{platformv1.PluginLabel: tc.label}},
			Data: map[string]string{"a": "b"}, Immutable: new(true),
		}
		got, ok := ParseSource(cm)
		if ok != tc.ok || got.Part != tc.want.Part || got.Plugin != tc.want.Plugin || got.Version != tc.want.Version {
			t.Errorf("%s: got %+v, %v", tc.name, got, ok)
		}
		if ok && (!got.Immutable || got.Namespace != "ns" || got.Data["a"] != "b" || got.Name != tc.name) {
			t.Errorf("%s: got %+v", tc.name, got)
		}
		if ok && SourceName(got.Plugin, got.Part, got.Version) != tc.name {
			t.Errorf("%s: SourceName gives another name", tc.name)
		}
	}
	if got, _ := ParseSource(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "redis-params-1.0.0", Labels: map[string]string{platformv1.PluginLabel: "redis"},
	}}); got.Immutable {
		t.Error("a ConfigMap that says nothing is taken for immutable")
	}
}

func TestLoadFolderRefuses(t *testing.T) {
	manifest := "version: 1.0.0\ndomain: database\nsupported-versions: \"1\"\nallowed-upgrade-from: \"\"\n"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, tc := range map[string]struct {
		folder fstest.MapFS
		says   string
	}{
		"empty":         {fstest.MapFS{}, "manifest.yaml: the file is missing"},
		"no components": {fstest.MapFS{"manifest.yaml": file(manifest)}, "components.yaml: the file is missing"},
		"unknown file": {fstest.MapFS{"manifest.yaml": file(manifest), "extra.yaml": file("")},
			"extra.yaml: the file is not known"},
		"nested": {fstest.MapFS{"manifest.yaml": file(manifest), "params/a/b.yaml": file("")},
			"params/a: it is a folder"},
		"version number": {fstest.MapFS{"manifest.yaml": file("version: 1.0\n")},
			"manifest.yaml:1: version is 1: it must be text"},
		"unknown field": {fstest.MapFS{"manifest.yaml": file(manifest + "params-ref: x\n")},
			`manifest.yaml:5: field "params-ref" is not known`},
		"no version": {fstest.MapFS{"manifest.yaml": file("domain: database\n")}, "manifest.yaml:1: version is missing"},
	} {
		_, errs := LoadFolder(tc.folder, "x")
		if !strings.Contains(list(errs), tc.says) {
			t.Errorf("%s: got\n%s\nwant %q", name, list(errs), tc.says)
		}
	}
	for file, want := range map[string]string{
		"redis-manifest-1.0.0/domain": "manifest.yaml", "redis-components-1.0.0/components.yaml": "components.yaml",
		"redis-params-1.0.0/redis.cue": "params/redis.cue", "redis-podtemplates-1.0.0/a.yaml": "podtemplates/a.yaml",
		"redis-operations-1.0.0/Restart.yaml": "operations/Restart.yaml",
	} {
		if got := FolderFile(file); got != want {
			t.Errorf("FolderFile(%q) = %q; want %q", file, got, want)
		}
	}
}
