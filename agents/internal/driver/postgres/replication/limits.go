// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// limits are settings that a follower must not have lower than the primary, by what pg_controldata calls those that the
// primary had last. A server with less does not replay the primary's log, so that who lowers one would lose all
// followers before the primary is told.
var limits = map[string]string{
	"max_connections setting":      "max_connections",
	"max_worker_processes setting": "max_worker_processes",
	"max_wal_senders setting":      "max_wal_senders",
	"max_prepared_xacts setting":   "max_prepared_transactions",
	"max_locks_per_xact setting":   "max_locks_per_transaction",
}

// raised are the limits that the data needs higher than they are configured.
func (s *Server) raised(ctx context.Context) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(s.Programs, "pg_controldata"), s.data()).Output()
	if err != nil {
		return nil, fmt.Errorf("pg_controldata: %w", err)
	}
	needed := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(line, ":")
		name, found := limits[strings.TrimSpace(key)]
		if !found {
			continue
		}
		needs, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("pg_controldata: %s is %q", name, value)
		}
		configured, err := s.configured(ctx, name)
		if err != nil {
			return nil, err
		}
		if needs > configured {
			needed[name] = strconv.Itoa(needs)
		}
	}
	return needed, nil
}

// raise has a server that does not run keep the limits that its data needs, with settings that are written already.
func (s *Server) raise(ctx context.Context, set settings) (err error) {
	if set.raised, err = s.raised(ctx); err != nil || len(set.raised) == 0 {
		return err
	}
	s.Log.Info("the server keeps limits that the primary had", "limits", set.raised)
	return s.write(set)
}

// configured is a setting of a server that does not run.
func (s *Server) configured(ctx context.Context, name string) (int, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(s.Programs, "postgres"), "-D", s.data(), "-c", "config_file="+
		s.Config, "-C", name).Output()
	if err != nil {
		return 0, fmt.Errorf("cannot read the setting %s: %w", name, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}
