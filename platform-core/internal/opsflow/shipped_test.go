// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"path/filepath"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/sdk/version"
)

// shipped are the newest versions of the plugins that operators bring.
func shipped(t *testing.T) []*plugin.Bundle {
	t.Helper()
	folders, err := filepath.Glob("../../../*-operator/plugins/*")
	if err != nil || len(folders) < 6 {
		t.Fatalf("there are %d plugins: %v", len(folders), err)
	}
	var bundles []*plugin.Bundle
	for _, folder := range folders {
		versions, err := filepath.Glob(filepath.Join(folder, "*", "manifest.yaml"))
		if err != nil || len(versions) == 0 {
			t.Fatalf("%s has no version: %v", folder, err)
		}
		newest := filepath.Base(filepath.Dir(versions[0]))
		for _, path := range versions {
			if found := filepath.Base(filepath.Dir(path)); version.Compare(newest, found) < 0 {
				newest = found
			}
		}
		bundle, _, problems := pluginfolder.Load(filepath.Join(folder, newest))
		if bundle == nil {
			t.Fatalf("%s %s is refused: %v", folder, newest, problems)
		}
		bundles = append(bundles, bundle)
	}
	return bundles
}

// Each topology of a shipped plugin that has a dynamic parameter can be asked to reload, and so can each component that
// has one.
func TestWhatHasDynamicParametersReloads(t *testing.T) {
	reloads := 0
	for _, bundle := range shipped(t) {
		for _, topology := range bundle.Components.Topologies {
			view, dynamic := bundle.In(topology.Name), ""
			var components []string
			for _, part := range topology.Components {
				components = append(components, part.Name)
				component, _ := view.Component(part.Name)
				parameters := view.Parameters(component)
				if parameters == nil || !parameters.HasDynamic() {
					continue
				}
				dynamic = part.Name
				reload(t, view, components, part.Name)
			}
			if dynamic != "" {
				reload(t, view, components, "")
				reloads++
			}
		}
	}
	if reloads < 6 {
		t.Errorf("only %d topologies have dynamic parameters", reloads)
	}
}

// reload checks that the template is accepted for a component; for all where it is empty.
func reload(t *testing.T, bundle *plugin.Bundle, components []string, component string) {
	t.Helper()
	template, refusal := opsflow.FindTemplate(platformv1.OperationSpec{TemplateRef: "Reload"}, bundle)
	if refusal == nil {
		refusal = opsflow.Supported(template, bundle, components, component)
	}
	if refusal != nil {
		t.Errorf("Reload of component %q of plugin %s is refused: %v", component, bundle.Manifest.Name, refusal)
	}
}

// A Failover of a Redis is the engine's where the engine names the primary, and the plugin's where the members elect
// one.
func TestFailoverOfEachTopologyOfRedis(t *testing.T) {
	for _, bundle := range shipped(t) {
		if bundle.Manifest.Name != "redis" {
			continue
		}
		for topology, own := range map[string]bool{"replication": false, "sentinel": true, "cluster": true} {
			view := bundle.In(topology)
			template, refusal := opsflow.FindTemplate(platformv1.OperationSpec{TemplateRef: "Failover"}, view)
			if refusal == nil {
				refusal = opsflow.Supported(template, view, map[string][]string{"cluster": {"node"}}[topology], "")
			}
			if _, has := template.Parameters["mode"]; refusal != nil && topology != "replication" || has != own ||
				!template.Preempts {
				t.Errorf("in topology %s it has the parameters %v, pre-empts %t: %v", topology, template.Parameters,
					template.Preempts, refusal)
			}
		}
	}
}
