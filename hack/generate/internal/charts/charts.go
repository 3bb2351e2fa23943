// SPDX-License-Identifier: Apache-2.0

// Package charts writes the Helm charts. The charts of the operators differ in name
// only, so they are made from one source, hack/generate/chart, in which [[ ]] stands
// for what differs; roles, plugins and definitions are copied from where they are
// kept. The result is committed, so that a chart installs right out of a clone.
package charts

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

const source = "hack/generate/chart"

// Write writes all of charts/.
func Write(root string) error {
	version, err := repo.Version(root)
	if err != nil {
		return err
	}
	for _, operator := range repo.Operators {
		if err := writeOperator(root, operator, version); err != nil {
			return fmt.Errorf("cannot write chart %q: %w", operator.Name(), err)
		}
	}
	if err := writeCore(root, version); err != nil {
		return fmt.Errorf("cannot write chart %q: %w", core, err)
	}
	return nil
}

// names is what the source of a chart can refer to.
type names struct {
	Name, Domain, Group, About, Version string
	// Kinds are the operator's own, Core those of the engine that people make, in the plural.
	Kinds, Core []string
	// Typed are those of Kinds that are in a namespace: they compile to Applications, and the webhook judges them.
	Typed []string
	// AgentPorts are those of the agents that the operator calls.
	AgentPorts []string
}

// madeByEngine are the core kinds that people do not make.
var madeByEngine = []string{"components", "plugins", "workloadsets"}

// plurals returns the names of the kinds that a module defines: its definitions are in files named
// <group>_<plural>.yaml.
func plurals(module string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(module, "config/crd/bases/*_*.yaml"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range files {
		_, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
		found = append(found, plural)
	}
	return found, nil
}

// namespaced returns those of the kinds of a module that are in a namespace.
func namespaced(module string, kinds []string) ([]string, error) {
	var found []string
	for _, kind := range kinds {
		files, err := filepath.Glob(filepath.Join(module, "config/crd/bases/*_"+kind+".yaml"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			definition, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if strings.Contains(string(definition), "\n  scope: Namespaced\n") {
				found = append(found, kind)
			}
		}
	}
	return found, nil
}

func writeOperator(root string, operator repo.Operator, version string) error {
	chart := newTree()
	module := filepath.Join(root, operator.Name())
	kinds, err := plurals(module)
	if err != nil {
		return err
	}
	objects, err := plurals(filepath.Join(root, core))
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(name string) bool { return slices.Contains(madeByEngine, name) })
	typed, err := namespaced(module, kinds)
	if err != nil {
		return err
	}
	ports, err := agentPorts(root)
	if err != nil {
		return err
	}
	values := names{operator.Name(), operator.Domain, operator.Group, operator.About, version, kinds, objects, typed,
		ports}
	if err := chart.render(root, source, values); err != nil {
		return err
	}
	copies := []struct{ from, to string }{
		{filepath.Join(root, "platform-core/config/rbac/engine_role.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/cluster_role.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/own_role.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/crd_role.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/agent_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/backup_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/deletion_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/domain_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/drill_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/made_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/operation_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/plugin_policy.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/leader_election_role.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/webhook/webhook_cluster_role.yaml"), "rbac"},
		{filepath.Join(root, "platform-core/config/rbac/webhook/webhook_role.yaml"), "rbac"},
		{filepath.Join(module, "config/rbac/role.yaml"), "rbac"},
		{filepath.Join(module, "config/rbac/*_policy.yaml"), "rbac"},
		{filepath.Join(module, "config/samples/*_*.yaml"), "samples"},
		{filepath.Join(module, "config/plugins/*-*.yaml"), pluginFolder},
	}
	for _, c := range copies {
		if err := chart.copy(c.from, c.to); err != nil {
			return err
		}
	}
	if err := chart.once(); err != nil {
		return err
	}
	return repo.WriteFolder(filepath.Join(root, "charts", operator.Name()), chart)
}

// tree is the content of a folder, by path.
type tree map[string][]byte

func newTree() tree { return tree{} }

// render adds every file below a folder of the repository with [[ ]] filled in.
func (t tree) render(root, folder string, values any) error {
	dir := filepath.Join(root, folder)
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := template.New(name).Delims("[[", "]]").Option("missingkey=error").Parse(string(text))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".tpl") {
			out.WriteString(header(name, folder+"/"+name))
		}
		if err := parsed.Execute(&out, values); err != nil {
			return err
		}
		t[name] = out.Bytes()
		return nil
	})
}

// copy adds the files that match a pattern; none is fine.
func (t tree) copy(pattern, folder string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		if t[filepath.Join(folder, filepath.Base(file))], err = os.ReadFile(file); err != nil {
			return err
		}
	}
	return nil
}

// header names the licence and the source of a generated file, in a comment that
// Helm does not render.
func header(name, from string) string {
	if strings.HasPrefix(name, "templates/") {
		return "{{- /* SPDX-License-Identifier: Apache-2.0. Generated from " + from +
			" by make generate: change it there. */ -}}\n"
	}
	return "# SPDX-License-Identifier: Apache-2.0\n# Generated from " + from + " by make generate: change it there.\n"
}
