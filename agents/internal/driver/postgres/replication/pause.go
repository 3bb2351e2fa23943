// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

const (
	// look is the time between looks at a session that may wait.
	look = 10 * time.Millisecond
	// goneIn is how many milliseconds a session may take to end.
	goneIn = "5000"
)

// Pause has the primary acknowledge no write for a time: each waits for one that never comes, as clients of a slow
// server do. It returns when that is so. A program of its own ends the pause; so does the end of the server.
func (s *Server) Pause(ctx context.Context, length time.Duration) error {
	connection, err := s.local(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(connection)
	name := link.PausedPrefix + strconv.FormatInt(time.Now().Add(length).Unix()+1, 10)
	if err := s.endLater(name, length); err != nil {
		return err
	}
	err = run(ctx, connection, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (\""+name+"\")'")
	if err == nil {
		err = s.reload(ctx, func(now []string) bool { return now[0] == `ANY 1 ("`+name+`")` })
	}
	if err == nil {
		err = s.awaitPaused(ctx, connection)
	}
	if err != nil {
		return errors.Join(err, s.Resume(context.WithoutCancel(ctx), name))
	}
	return nil
}

// endLater starts what ends the pause, whatever becomes of this process.
func (s *Server) endLater(name string, length time.Duration) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(own, "postgresql", "resume", name, "--after", length.String(), "--programs", s.Programs,
		"--config", s.Config, "--dir", s.Dir,
		"--run", s.Run, "--port", strconv.Itoa(s.Port))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// awaitPaused returns when a commit waits. The server takes the setting over at its leisure where nobody was waited for
// before.
func (s *Server) awaitPaused(ctx context.Context, connection *pgconn.PgConn) error {
	return link.Until(ctx, "writes do not wait", func() (bool, error) {
		session, err := s.local(ctx)
		if err != nil {
			return false, err
		}
		defer link.HangUp(session)
		if err := run(ctx, session, "SET synchronous_commit = on"); err != nil {
			return false, err
		}
		pid := strconv.FormatUint(uint64(session.PID()), 10)
		written := make(chan error, 1)
		committing, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			written <- run(committing, session, "SELECT pg_logical_emit_message(true, 'zeroinfra', 'pause')")
		}()
		for {
			select {
			case err := <-written:
				// It was not waited for.
				return false, err
			case <-ctx.Done():
				return false, context.Cause(ctx)
			case <-time.After(look):
			}
			said, err := row(ctx, connection, "SELECT coalesce((SELECT wait_event FROM pg_stat_activity WHERE pid = $1::int), "+
				"'')", pid)
			if err != nil {
				return false, err
			}
			if said[0] == "SyncRep" {
				// Whoever waits there is told that it was written: nobody listens.
				cancel()
				<-written
				return true, run(ctx, connection, "SELECT pg_terminate_backend($1::int, "+goneIn+")", pid)
			}
		}
	})
}

// Resume ends the pause of this name, and no later one.
func (s *Server) Resume(ctx context.Context, name string) error {
	connection, err := s.local(ctx)
	if err != nil {
		// A server that is not there is not paused.
		return nil
	}
	defer link.HangUp(connection)
	// One that was given up may be in the file and not yet in force: the next reload of any kind would have it begin.
	now, err := row(ctx, connection,
		`SELECT current_setting('synchronous_standby_names'), coalesce((SELECT setting FROM pg_file_settings
		WHERE name = 'synchronous_standby_names' AND sourcefile LIKE '%/postgresql.auto.conf'
		ORDER BY seqno DESC LIMIT 1), '')`)
	if err != nil {
		return err
	}
	paused := fmt.Sprintf("ANY 1 (%q)", name)
	if !slices.Contains(now, paused) {
		return nil
	}
	if err := run(ctx, connection, "ALTER SYSTEM RESET synchronous_standby_names"); err != nil {
		return err
	}
	if err := s.reload(ctx, func(now []string) bool { return now[0] != paused }); err != nil {
		return err
	}
	return nudge(ctx, connection)
}
