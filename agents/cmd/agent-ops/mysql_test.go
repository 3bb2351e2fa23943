// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/testmysql"
)

// TestMySQLIsLookedAtFromBeside: what starts a server also looks at its tables, and forwards its slow query log, be it
// a member of a group or alone.
func TestMySQLIsLookedAtFromBeside(t *testing.T) {
	for name, arguments := range map[string][]string{
		"a member of a group": {"--group=shop/db", "--host=localhost", "--peers=localhost"},
		"alone":               nil,
	} {
		t.Run(name, func(t *testing.T) { lookedAtFromBeside(t, arguments) })
	}
}

func lookedAtFromBeside(t *testing.T, arguments []string) {
	t.Helper()
	s := testmysql.New(t, "server_id = 1", "gtid_mode = ON", "enforce_gtid_consistency = ON", "slow_query_log = ON",
		"long_query_time = 0")
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	own := s.Server
	cmd := exec.Command(os.Args[0], append([]string{"mysql", "start", "--program=" + own.Program,
		"--config=" + own.Config, "--dir=" + own.Dir, "--run=" + own.Run, "--secrets=" + own.Secrets,
		"--slow-log=" + own.SlowLog}, arguments...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asAgent+"=1"), said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for path, want := range map[string]string{filepath.Join(own.Run, server.TablesFile): "unreplicable=none\ncertificate=",
		said.Name(): "# Query_time"} {
		s.Until(path+" has "+want, func(context.Context) error {
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), want) {
				return fmt.Errorf("it has %q, %w", text, err)
			}
			return nil
		})
	}
}
