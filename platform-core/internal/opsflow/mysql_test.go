// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// ofMySQL is a template of the shipped plugin of that name.
func ofMySQL(t *testing.T, name string) optemplate.Template {
	t.Helper()
	return ofShipped(t, "mysql", "group", name)
}

// ofShipped is a template of a shipped plugin, for a topology.
func ofShipped(t *testing.T, name, topology, template string) optemplate.Template {
	t.Helper()
	bundles := shipped(t)
	i := slices.IndexFunc(bundles, func(b *plugin.Bundle) bool { return b.Manifest.Name == name })
	found, refusal := opsflow.FindTemplate(platformv1.OperationSpec{TemplateRef: template}, bundles[i].In(topology))
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	return found
}

// A quorum is forced for members alone, and the one with the label of the primary is made anew last.
func TestForceQuorumOfMySQL(t *testing.T) {
	template := ofMySQL(t, "ForceQuorum")
	variables := func(lost, primary string) map[string]any {
		return map[string]any{
			"target":     map[string]any{"members": `[["m-0","m-1","m-10"]]`},
			"parameters": map[string]any{"from": "m-0", "lost": lost},
			"steps":      map[string]any{"order": map[string]any{"outputs": map[string]any{"primary": primary}}},
		}
	}
	for lost, want := range map[string]bool{"m-1": true, "m-1,m-10": true, "m-2": false, "m": false, "m-1,m-2": false} {
		if got, err := template.Truth("", template.Preconditions[0].Rule, variables(lost, "")); err != nil || got != want {
			t.Errorf("%s are members: %t, %v", lost, got, err)
		}
	}
	step, _ := template.Step("rebuild")
	for primary, want := range map[string]string{"": "m-1 m-10", "m-1": "m-10 m-1", "m-10": "m-1 m-10",
		"m-0": "m-1 m-10"} {
		if got, err := template.Texts("rebuild", step.ForEach, variables("m-1,m-10", primary)); err != nil ||
			strings.Join(got, " ") != want {
			t.Errorf("with primary %q made anew are %v, %v; want %s", primary, got, err, want)
		}
	}
}

// Before anything of a member is deleted, a member that is well is asked whether the others can do without it, also
// where somebody has approved it.
func TestRebuildMemberOfMySQLAsksWhetherItCanBeSpared(t *testing.T) {
	template := ofMySQL(t, "RebuildMember")
	i := slices.IndexFunc(template.Steps, func(s optemplate.Step) bool { return s.Name == "rebuild" })
	if i < 1 || template.Steps[i-1].Agent == nil {
		t.Fatalf("the steps are %+v", template.Steps)
	}
	asked := template.Steps[i-1]
	if asked.When != "" || asked.Agent.Action != "look" || asked.Agent.Pods != optemplate.PodsOne {
		t.Errorf("before the rebuild there is %+v", asked)
	}
	variables := map[string]any{"parameters": map[string]any{"pod": "m-1"},
		"target": map[string]any{"members": `[["m-0","m-1","m-2"]]`}}
	for name, want := range map[string]string{"formed": "true",
		"shape": `{"members":[["m-0","m-1","m-2"]],"leaving":[],"spare":"m-1"}`} {
		if got, err := template.Text("spare", asked.Agent.Parameters[name], variables); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

// A member is made anew without an approval but where it has what the others have not.
func TestRebuildMemberOfMySQL(t *testing.T) {
	template := ofMySQL(t, "RebuildMember")
	step, _ := template.Step("look")
	condition := func(kind, message string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "message": ""},
			map[string]any{"type": kind, "message": message}}}
	}
	const said = "m-1 has transactions that the group has not"
	for _, tc := range []struct {
		pod, want string
		status    map[string]any
	}{
		{"m-1", said, condition("Quarantined", said)},
		{"m-10", "", condition("Quarantined", said)},
		{"m-1", "", condition("Stalled", said)},
		{"m-1", "", map[string]any{}},
	} {
		variables := map[string]any{"parameters": map[string]any{"pod": tc.pod},
			"object": map[string]any{"status": tc.status}}
		if got, err := template.Value("look", "quarantined", step.Wait.Outputs["quarantined"], variables); err != nil ||
			got != tc.want {
			t.Errorf("of %s it says %q, %v; want %q", tc.pod, got, err, tc.want)
		}
		variables = map[string]any{"steps": map[string]any{
			"look": map[string]any{"outputs": map[string]any{"quarantined": tc.want}}}}
		approval, _ := template.Step("approval")
		if asked, err := template.Truth("approval", approval.When, variables); err != nil || asked != (tc.want != "") {
			t.Errorf("of %s an approval is asked for: %t, %v", tc.pod, asked, err)
		}
	}
}
