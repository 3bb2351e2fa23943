// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// A schedule of backups or drills comes to nothing where nobody says how the data of the topology is backed up, or
// verified.
func TestSchedulesTakeWhatThePluginSays(t *testing.T) {
	verified := schema.BackupMethod{Name: "rdb", Verify: &schema.VerifyMethod{Topology: "standalone", Operation: "Verify"}}
	bundle := &plugin.Bundle{Manifest: plugin.Manifest{Name: "redis", Version: "1.1.0"}, Components: schema.Components{
		Components: []schema.Component{{Name: "redis", Backups: []schema.BackupMethod{verified}},
			{Name: "node", Backups: []schema.BackupMethod{{Name: "rdb"}}}, {Name: "proxy"}},
		Topologies: []schema.Topology{
			{Name: "front", Components: []schema.TopologyComponent{{Name: "proxy"}}},
			{Name: "standalone", Components: []schema.TopologyComponent{{Name: "redis"}}},
			{Name: "cluster", Components: []schema.TopologyComponent{{Name: "node"}}},
		},
	}}
	for _, tc := range []struct{ topology, template, says string }{
		{"standalone", "VerifyBackup", ""},
		{"cluster", "VerifyBackup", `does not say how data of "node" that was restored is verified`},
		{"cluster", "Backup", ""},
		{"front", "Backup", `does not say how data of "proxy" is backed up`},
		// What is wrong with these is said elsewhere.
		{"cluster", "Dance", ""},
		{"nowhere", "VerifyBackup", ""},
	} {
		app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Topology: tc.topology}}
		if got := TemplatesFor(app, bundle).Impossible(tc.template); got != "" && tc.says == "" ||
			!strings.Contains(got, tc.says) {
			t.Errorf("%s of %s: %q, want %q", tc.template, tc.topology, got, tc.says)
		}
		if got := TemplatesFor(app, nil).Impossible(tc.template); got != "" {
			t.Errorf("%s without a plugin: %q", tc.template, got)
		}
	}
}
