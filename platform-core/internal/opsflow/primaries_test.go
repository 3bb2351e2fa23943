// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestWhoTakesWrites: the pods with the label of a role that writes; while none has it, since another one is about to
// take over, those on record.
func TestWhoTakesWrites(t *testing.T) {
	f := Facts{
		Pods: []Pod{
			{Name: "db-a-0", Component: "a", Access: platformv1.RoleReadWrite},
			{Name: "db-a-1", Component: "a", Access: platformv1.RoleReadOnly},
			{Name: "db-b-0", Component: "b", Access: platformv1.RoleReadOnly},
		},
		Writing: map[string]Writing{
			"db-b": {Component: "b", Record: &platformv1.PrimaryRecord{Member: &platformv1.SetMember{Name: "db-b-1"}}},
			"db-c": {Component: "c", Record: &platformv1.PrimaryRecord{}},
			"db-d": {Component: "d"},
		},
	}
	for component, want := range map[string][]string{"": {"db-a-0"}, "a": {"db-a-0"}, "b": {"db-b-1"}, "c": nil,
		"d": nil} {
		if got := f.primaries(component); !slices.Equal(got, want) {
			t.Errorf("of component %q %v take writes, want %v", component, got, want)
		}
	}
}
