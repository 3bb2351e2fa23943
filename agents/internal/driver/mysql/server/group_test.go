// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnImageWithoutThePluginsOfAGroupIsNamed(t *testing.T) {
	for title, c := range map[string]struct {
		files []string
		lacks string
	}{
		"all are there":      {[]string{"lib/mysql/plugin/group_replication.so", "lib/mysql/plugin/mysql_clone.so"}, ""},
		"of an archive":      {[]string{"lib/plugin/group_replication.so", "lib/plugin/mysql_clone.so"}, ""},
		"one is missing":     {[]string{"lib/mysql/plugin/mysql_clone.so"}, "lacks group_replication.so in "},
		"both are missing":   {[]string{"lib/plugin/auth_socket.so"}, "lacks group_replication.so and mysql_clone.so in "},
		"nobody knows where": {nil, ""},
	} {
		t.Run(title, func(t *testing.T) {
			base := t.TempDir()
			for _, file := range c.files {
				path := filepath.Join(base, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := checkPlugins(filepath.Join(base, "bin", "mysqld"))
			if (err != nil) != (c.lacks != "") || err != nil && !strings.Contains(err.Error(), c.lacks) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
