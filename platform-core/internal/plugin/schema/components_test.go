// SPDX-License-Identifier: Apache-2.0

package schema

import "testing"

func TestMountFor(t *testing.T) {
	c := &Component{Mounts: []Mount{{Name: "data", Path: "/datasets", Each: true, ReadOnly: true},
		{Name: "data-own", Path: "/own"}, {Name: "models", Path: "/models"}}}
	for name, want := range map[string]struct {
		path  string
		index int
	}{
		"models": {"/models", 2}, "data-own": {"/own", 1}, "data-a-1": {"/datasets/a-1", 0},
		"data": {"", -1}, "data-": {"", -1}, "models-a": {"", -1}, "other": {"", -1},
	} {
		if m, index := c.MountFor(name); m.Path != want.path || index != want.index || index >= 0 && m.Name != name {
			t.Errorf("%s: got %+v at %d, want %+v", name, m, index, want)
		}
	}
}
