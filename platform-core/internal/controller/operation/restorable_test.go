// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// An instance whose log is archived is told by the credential that its method reads such a log with.
func TestAnArchiveIsTold(t *testing.T) {
	reads := &plugin.RestoreMethod{Target: &plugin.TargetMethod{Credentials: []plugin.TargetCredential{{Name: "archive-ca", Optional: true}, {Name: "archive"}}}}
	facts := accept.Facts{State: plugin.State{Bundle: &plugin.Bundle{Components: plugin.Components{Components: []plugin.Component{
		{Name: "server", Backups: []plugin.BackupMethod{{Name: "base", Restore: reads}, {Name: "dump", Restore: &plugin.RestoreMethod{}}}},
	}}}}}
	wanted := []platformv1.ComponentSpec{{Component: "server"}}
	for name, tc := range map[string]struct {
		method string
		has    []string
		want   string
	}{
		"an archive":          {"base", []string{"archive-ca", "archive"}, "archive"},
		"none":                {"base", nil, ""},
		"its CA alone":        {"base", []string{"archive-ca"}, ""},
		"a method without it": {"dump", []string{"archive"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := &platformv1.Application{}
			for _, credential := range tc.has {
				app.Spec.Credentials = append(app.Spec.Credentials, platformv1.Credential{Name: credential})
			}
			if got := archivedAs(app, facts, wanted, &platformv1.Backup{Spec: platformv1.BackupSpec{Method: tc.method}}); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}
