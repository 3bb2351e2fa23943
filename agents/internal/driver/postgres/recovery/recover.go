// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/alone"
	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// Server recovers a copy of a server's data.
type Server struct {
	// Programs is the folder of the server's programs, Data that of the copy, and Work one on the same volume for what is
	// needed meanwhile.
	Programs, Data, Work string
	// Restore is the command that gives it files of the archive, with %f and %p.
	Restore string
	Log     *slog.Logger
}

// Recover replays the log up to a target, has the server go on on a timeline of its own, and stops it. An OutOfRange
// says that the log ended before, or that the target is before the copy was whole.
func (s *Server) Recover(ctx context.Context, target mover.Target) (err error) {
	prepared, err := s.prepared(ctx)
	if err != nil {
		return err
	}
	if err := s.readies(); err != nil {
		return err
	}
	var log log
	server := &alone.Server{Programs: s.Programs, Data: s.Data, Work: s.Work, Settings: s.settings(target.Time, prepared),
		Hear: log.hear}
	run, err := server.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	// It lets nobody in before it takes writes.
	switch err := run.Ready(ctx); {
	case errors.Is(err, alone.ErrEnded):
		return log.explained(target, run.Why())
	case err != nil:
		return err
	}
	s.Log.Info("the server has recovered, and is stopped")
	return run.Stop()
}

var preparedForm = regexp.MustCompile(`(?m)^max_prepared_xacts setting: +([0-9]+)$`)

// prepared is how many prepared transactions the data can have.
func (s *Server) prepared(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Programs, "pg_controldata"), s.Data)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	said, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("pg_controldata: %w", err)
	}
	found := preparedForm.FindSubmatch(said)
	if found == nil {
		return "", errors.New("pg_controldata does not say how many prepared transactions there can be")
	}
	return string(found[1]), nil
}

// settings have the server go to the target. Commit timestamps that the log has are kept; a server that does not track
// them drops them when it starts.
func (s *Server) settings(to time.Time, prepared string) string {
	return fmt.Sprintf(`max_prepared_transactions = %s
hot_standby = off
track_commit_timestamp = on
restore_command = '%s'
recovery_target_time = '%s+00'
recovery_target_inclusive = on
recovery_target_timeline = latest
recovery_target_action = promote
`, prepared, s.Restore, to.UTC().Format("2006-01-02 15:04:05.999999"))
}

// readies has the copy be recovered when a server starts on it.
func (s *Server) readies() error {
	return errors.Join(
		// A copy of a replica would go on following.
		atomicfile.Remove(filepath.Join(s.Data, "standby.signal")),
		atomicfile.Remove(filepath.Join(s.Data, "postmaster.pid")),
		os.WriteFile(filepath.Join(s.Data, "postgresql.auto.conf"), nil, 0o600),
		os.WriteFile(filepath.Join(s.Data, "recovery.signal"), nil, 0o600))
}

var reachedForm = regexp.MustCompile(`last completed transaction was at log time (.+)$`)

// log is what the server has said of how far it is.
type log struct {
	// reached is the time of the last transaction that it replayed.
	reached string
}

func (l *log) hear(line string) {
	if found := reachedForm.FindStringSubmatch(line); found != nil {
		l.reached = found[1]
	}
}

// explained is why the server did not come to the target, and ended.
func (l *log) explained(target mover.Target, why string) error {
	switch {
	case strings.Contains(why, "recovery ended before configured recovery target was reached"):
		what := ""
		if l.reached != "" {
			what = ": the last transaction that there is ended at " + l.reached
		}
		return pointintime.Refused("%s was not reached%s", pointintime.InWords(target.Time), what)
	case strings.Contains(why, "requested recovery stop point is before consistent recovery point"):
		return pointintime.Refused("%s is before the backup was complete: take an earlier backup",
			pointintime.InWords(target.Time))
	}
	return fmt.Errorf("the recovery failed: %s", why)
}
