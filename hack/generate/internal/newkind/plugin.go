// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// span is a range of a number of pods or sets.
type span struct{ Default, Min, Max, Step int32 }

// varies says whether there can be more than one number of them.
func (s *span) varies() bool { return s != nil && s.Max > s.Min }

// bundle is what matters here of a plugin, as it is packaged.
type bundle struct {
	Components []component `json:"components"`
	Topologies []topology  `json:"topologies"`
	// versions of the middleware, the newest last.
	versions []string
	// operations that the plugin has templates of, and the topologies that they are for; all when empty.
	operations map[string][]string
}

type component struct {
	Name, Authority, Scaling string
	Replicas, Sets           *span
	Volumes                  []struct{ Name, Size string }
	Services                 []struct{ Role string }
	Process                  struct{ Reload map[string]any }
	Failover                 map[string]any
}

type topology struct {
	Name       string
	From       []string
	Components []struct {
		Name, Authority string
		Replicas, Sets  *span
	}
}

// facts are what a kind is made from.
type facts struct {
	// Plugin and PluginVersion, the newest one.
	Plugin, PluginVersion string
	// Versions of the middleware that the plugin supports, in its order, and the last of them.
	Versions []string
	Version  string
	// Topology of the kind, Component of that which its fields are about, and Role of the pods that clients go to.
	Topology, Component, Role string
	// Size of each volume of the component; empty where it has none.
	Size string
	// Replicas are how many pods each set can have, where there is a choice.
	Replicas *span
	// Operations are the twelve, and whether the kind has them.
	Operations []operation
	// Otherwise is what the kind offers of HorizontalScale, where that is not what its plugin does.
	Otherwise string
}

// packagedVersion is the name of a version of a plugin as it is packaged.
var packagedVersion = regexp.MustCompile(`^(.*)-(\d+)\.(\d+)\.(\d+)\.yaml$`)

// readPlugin reads the newest version of a plugin of an operator.
func readPlugin(root, operator, name, asked string) (facts, error) {
	folder := filepath.Join(operator, "plugins", name)
	if name == "" || name != filepath.Base(name) || !exists(filepath.Join(root, folder)) {
		return facts{}, fmt.Errorf("%s has no plugin %q: there is no folder %s. Write the plugin first (docs/plugins.md)",
			operator, name, folder)
	}
	files, err := filepath.Glob(filepath.Join(root, operator, "config", "plugins", name+"-*.yaml"))
	if err != nil {
		return facts{}, err
	}
	newest, file, version := "", "", ""
	for _, path := range files {
		m := packagedVersion.FindStringSubmatch(filepath.Base(path))
		if m == nil || m[1] != name {
			continue
		}
		if order := fmt.Sprintf("%06s.%06s.%06s", m[2], m[3], m[4]); order > newest {
			newest, file, version = order, path, strings.Join(m[2:], ".")
		}
	}
	if file == "" {
		return facts{}, fmt.Errorf("the plugin %q is packaged in no version: run make generate, and commit what it writes",
			name)
	}
	b, err := readBundle(file)
	if err != nil {
		return facts{}, fmt.Errorf("cannot read plugin %q: %w", name, err)
	}
	f, err := b.facts(name, asked)
	f.Plugin, f.PluginVersion = name, version
	return f, err
}

func readBundle(file string) (*bundle, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b := &bundle{operations: map[string][]string{}}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var part struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &part); err != nil {
			return nil, err
		}
		for key, text := range part.Data {
			operation, isYAML := strings.CutSuffix(key, ".yaml")
			switch {
			case key == "components.yaml":
				err = yaml.Unmarshal([]byte(text), b)
			case key == "supported-versions":
				b.versions = strings.Split(text, ",")
			case isYAML && strings.Contains(part.Metadata.Name, "-operations-"):
				var template struct{ Topologies []string }
				err = yaml.Unmarshal([]byte(text), &template)
				b.operations[operation] = template.Topologies
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return b, nil
}

// facts of a kind with a topology of the plugin, its first one when none is asked for.
func (b *bundle) facts(name, asked string) (facts, error) {
	var names []string
	for _, t := range b.Topologies {
		names = append(names, t.Name)
	}
	if len(names) == 0 || len(b.versions) == 0 {
		return facts{}, fmt.Errorf("the plugin %q has no topology, or supports no version: zictl plugin check says more",
			name)
	}
	at := slices.Index(names, cmp.Or(asked, names[0]))
	if at < 0 {
		return facts{}, fmt.Errorf("the plugin %q has no topology %q: it is one of %s", name, asked,
			strings.Join(names, ", "))
	}
	t := b.Topologies[at]
	f := facts{Topology: t.Name, Versions: b.versions, Version: b.versions[len(b.versions)-1]}
	if len(t.Components) == 0 {
		return facts{}, fmt.Errorf("the topology %q of plugin %q has no component", t.Name, name)
	}
	main := t.Components[0]
	c, ok := b.component(main.Name)
	if !ok {
		return facts{}, fmt.Errorf("the topology %q of plugin %q has an unknown component %q", t.Name, name, main.Name)
	}
	f.Component = c.Name
	if len(c.Services) > 0 {
		f.Role = c.Services[0].Role
	}
	if len(c.Volumes) > 0 {
		f.Size = c.Volumes[0].Size
	}
	if pods := cmp.Or(main.Replicas, c.Replicas); pods.varies() && c.Scaling == "" {
		f.Replicas = pods
	}
	f.Operations, f.Otherwise = b.operationsOf(&f)
	return f, nil
}

func (b *bundle) component(name string) (component, bool) {
	at := slices.IndexFunc(b.Components, func(c component) bool { return c.Name == name })
	if at < 0 {
		return component{}, false
	}
	return b.Components[at], true
}

// Steps are the numbers of pods that there can be, where they are not all between the least and the most.
func (s *span) Steps() []int32 {
	if s.Step < 2 {
		return nil
	}
	var all []int32
	for n := s.Min; n <= s.Max; n += s.Step {
		all = append(all, n)
	}
	return all
}
