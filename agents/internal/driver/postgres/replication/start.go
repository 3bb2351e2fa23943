// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// StartAlone becomes a server that has nobody beside it.
func (s *Server) StartAlone() error { return s.become() }

// StartPrimary becomes the primary. Data that followed before goes on from all that it has, on a timeline of its own.
func (s *Server) StartPrimary(ctx context.Context) error {
	m, err := readMember(s.Dir)
	if err != nil {
		return err
	}
	if !exists(s.data()) {
		if len(m.List.Members) > 1 {
			return fmt.Errorf("there is no data in %s, and other members have some: an empty server never becomes the "+
				"primary, so that a member with data has to take over",
				s.data())
		}
		// The program makes it.
		return s.become()
	}
	how, err := s.repairWanted()
	if err != nil {
		return err
	}
	if how == Broken {
		return fmt.Errorf("the data in %s was being rewound, and is incomplete: it can only follow a primary", s.data())
	}
	if err := atomicfile.Remove(s.kept(repairFile)); err != nil {
		return err
	}
	followed := exists(s.data(standbySignal))
	if followed {
		if err := s.noteTerm(m.Term); err != nil {
			return err
		}
		if err := os.Rename(s.data(standbySignal), s.data(recoverySignal)); err != nil {
			return err
		}
		s.Log.Info("the replica becomes the primary", "term", m.Term)
	}
	set := s.settingsFor(m)
	set.recovers = exists(s.data(recoverySignal))
	if err := s.write(set); err != nil {
		return err
	}
	if set.recovers {
		// As long as it recovers, it needs what the primary before had.
		if err := s.raise(ctx, set); err != nil {
			return err
		}
	}
	return s.become()
}

// StartFollower becomes a server that follows the primary in another pod, or will when Follow has looked at both.
func (s *Server) StartFollower(ctx context.Context, primary string) error {
	m, err := readMember(s.Dir)
	if err != nil {
		return err
	}
	how, err := s.repairWanted()
	if err != nil {
		return err
	}
	if other, err := s.unreadable(ctx); err != nil {
		return err
	} else if other {
		how = Replaced
	}
	set := s.settingsFor(m)
	if how != "" {
		err := s.repair(ctx, primary, how)
		away := errors.As(err, new(primaryAway))
		switch {
		case err != nil && (!away || how == Broken || how == Replaced || !exists(s.data())):
			return err
		case err != nil:
			// What is there can be looked at meanwhile: somebody may have to know who has what.
			s.Log.Warn("the data has diverged, and the primary that it is to follow does not answer: the server starts with "+
				"the data that it has", "problem", err.Error())
			how = ""
		default:
			// Only with what comes from the primary is it whole.
			set.primary = primary
		}
	}
	err = errors.Join(
		atomicfile.Remove(s.data(recoverySignal)),
		atomicfile.Write(s.data(standbySignal), nil, 0o600),
		s.write(set),
	)
	if err != nil {
		return err
	}
	if err := s.raise(ctx, set); err != nil {
		return err
	}
	if how != "" {
		if err := atomicfile.Remove(s.kept(repairFile)); err != nil {
			return err
		}
	}
	return s.become()
}

// repairWanted says what has to be done before the data can follow; empty for nothing.
func (s *Server) repairWanted() (Verdict, error) {
	if !exists(s.data()) {
		return Copies, nil
	}
	data, err := os.ReadFile(s.kept(repairFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return Verdict(strings.TrimSpace(string(data))), err
}

// wantRepair has the next start do it.
func (s *Server) wantRepair(how Verdict) error {
	return atomicfile.Write(s.kept(repairFile), []byte(how), 0o600)
}

// primaryAway says that nothing was done: the primary cannot be asked.
type primaryAway struct{ error }

// repair has data that follow the primary's.
func (s *Server) repair(ctx context.Context, primary string, how Verdict) error {
	connection, err := s.login(ctx, primary)
	if err != nil {
		return primaryAway{err}
	}
	defer link.HangUp(connection)
	if err := writes(connection); err != nil {
		return primaryAway{err}
	}
	if how == Replaced {
		if err := s.mayReplace(ctx, connection); err != nil {
			return err
		}
	}
	if err := keepSlot(ctx, connection, s.slot()); err != nil {
		return err
	}
	if how == Rewinds {
		// Its control file tells of a promotion only since the last checkpoint, which takes as long as there is to write.
		if err := run(ctx, connection, "SET statement_timeout = 0"); err != nil {
			return err
		}
		if err := run(ctx, connection, "CHECKPOINT"); err != nil {
			return err
		}
		// What is cut off in the middle is no data any more: then all of it is copied.
		if err := s.wantRepair(Broken); err != nil {
			return err
		}
		err := s.rewind(ctx, primary)
		if err == nil {
			return nil
		}
		s.Log.Warn("the data cannot be rewound: all data of the primary is copied", "problem", err.Error())
	}
	return s.copy(ctx, primary)
}

// writes refuses a server that does not take writes: who follows it is led nowhere.
func writes(connection *pgconn.PgConn) error {
	if connection.ParameterStatus("in_hot_standby") == "on" {
		return errors.New("the primary does not take writes yet")
	}
	return nil
}

// rewind brings the data back to where it went elsewhere.
func (s *Server) rewind(ctx context.Context, primary string) error {
	// The program starts the server alone, to replay the log, which a standby refuses.
	if err := errors.Join(atomicfile.Remove(s.data(standbySignal)), atomicfile.Remove(s.data(recoverySignal)),
		s.write(settings{})); err != nil {
		return err
	}
	removeStale(s)
	s.Log.Info("the data is rewound to where it diverged from the primary's", "primary", primary)
	return s.program(ctx, "pg_rewind", "--target-pgdata="+s.data(), "--source-server="+s.programInfo(primary),
		"--config-file="+s.Config)
}

// copy takes all of the primary's data. It has another name until it is whole, and what was there before stays until
// then.
func (s *Server) copy(ctx context.Context, primary string) error {
	fresh, old := s.data()+".new", s.data()+".old"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	s.Log.Info("all data of the primary is copied", "primary", primary)
	if err := s.program(ctx, "pg_basebackup", "--pgdata="+fresh, "--dbname="+s.programInfo(primary), "--slot="+s.slot(),
		"--wal-method=stream",
		"--checkpoint=fast", "--no-password"); err != nil {
		return err
	}
	err := errors.Join(atomicfile.Write(filepath.Join(fresh, standbySignal), nil, 0o600), os.RemoveAll(old))
	if err != nil {
		return err
	}
	if err := os.Rename(s.data(), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, s.data()); err != nil {
		return err
	}
	if err := atomicfile.SyncFolder(s.Dir); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// program runs one of the server's programs; it ends with what began it.
func (s *Server) program(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Programs, name), args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// become has this process be the server.
func (s *Server) become() error {
	program, err := exec.LookPath(s.Launch)
	if err != nil {
		return err
	}
	return syscall.Exec(program, []string{program, s.Programs, s.Config}, os.Environ())
}

// removeStale removes what a process that was killed left: nobody else is at the volume.
func removeStale(s *Server) {
	_ = os.Remove(s.data("postmaster.pid"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
