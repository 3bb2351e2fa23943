// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// An instance whose log is archived is told by the credential that one of its methods reads such a log with, whichever
// the Backup is by.
func TestAnArchiveIsTold(t *testing.T) {
	reads := &schema.RestoreMethod{Target: &schema.TargetMethod{
		Credentials: []schema.TargetCredential{{Name: "archive-ca", Optional: true}, {Name: "archive"}}}}
	facts := accept.Facts{State: plugin.State{
		Bundle: &plugin.Bundle{Components: schema.Components{Components: []schema.Component{
			{Name: "server", Backups: []schema.BackupMethod{{Name: "dump", Restore: &schema.RestoreMethod{}},
				{Name: "base", Restore: reads}}},
			{Name: "other", Backups: []schema.BackupMethod{{Name: "files", Restore: &schema.RestoreMethod{}}}},
		}}}}}
	for name, tc := range map[string]struct {
		component string
		has       []string
		in        *platformv1.Archive
		want      string
	}{
		"an archive":             {"server", []string{"archive-ca", "archive"}, nil, `credential "archive"`},
		"none":                   {"server", nil, nil, ""},
		"its CA alone":           {"server", []string{"archive-ca"}, nil, ""},
		"a component without it": {"other", []string{"archive"}, nil, ""},
		"a repository": {"server", nil,
			&platformv1.Archive{RepositoryRef: platformv1.RepositoryReference{Name: "store"}}, `BackupRepository "store"`},
		"a repository, and a component without it": {"other", nil,
			&platformv1.Archive{RepositoryRef: platformv1.RepositoryReference{Name: "store"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Archive: tc.in}}
			for _, credential := range tc.has {
				app.Spec.Credentials = append(app.Spec.Credentials, platformv1.Credential{Name: credential})
			}
			if got := archivedAs(app, facts, []platformv1.ComponentSpec{{Component: tc.component}}); got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}
