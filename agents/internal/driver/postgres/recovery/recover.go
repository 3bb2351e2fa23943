// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// look is the time between looks at whether the server has recovered.
	look = 200 * time.Millisecond
	// startingUp is what a server says that does not let anybody in yet.
	startingUp = "57P03"
	port       = "5432"
)

// Server recovers a copy of a server's data.
type Server struct {
	// Programs is the folder of the server's programs, Data that of the copy, and Work one on the same volume for what is needed meanwhile.
	Programs, Data, Work string
	// Restore is the command that gives it files of the archive, with %f and %p.
	Restore string
	Log     *slog.Logger
}

// Recover replays the log up to a target, has the server go on on a timeline of its own, and stops it. An OutOfRange says that the log ended before,
// or that the target is before the copy was whole.
func (s *Server) Recover(ctx context.Context, target mover.Target) error {
	prepared, err := s.prepared(ctx)
	if err != nil {
		return err
	}
	// Paths of sockets are short.
	socket, err := os.MkdirTemp("", "recovery-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(socket)
	if err := s.configure(target.Time, socket, prepared); err != nil {
		return err
	}
	run, err := s.start(ctx)
	if err != nil {
		return err
	}
	if err := run.recovers(ctx, socket); err != nil {
		return run.explained(target, err)
	}
	s.Log.Info("the server has recovered, and is stopped")
	if err := run.process.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	if <-run.ended; !run.process.ProcessState.Success() {
		return fmt.Errorf("the server has recovered, and did not stop well: %s", run.process.ProcessState)
	}
	return nil
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

// configure has the server recover alone: once promoted it must not go on with subscriptions, of which the publishers have one slot for it and the
// server that was backed up. Commit timestamps that the log has are kept; a server that does not track them drops them when it starts. What becomes of the data is synced as a whole by whoever takes it over.
func (s *Server) configure(to time.Time, socket, prepared string) error {
	config := fmt.Sprintf(`data_directory = '%[1]s'
hba_file = '%[2]s/pg_hba.conf'
ident_file = '%[2]s/pg_ident.conf'
listen_addresses = ''
port = %[3]s
unix_socket_directories = '%[4]s'
unix_socket_permissions = 0700
log_destination = stderr
logging_collector = off
lc_messages = C
log_timezone = UTC
shared_buffers = 64MB
dynamic_shared_memory_type = mmap
max_prepared_transactions = %[5]s
hot_standby = off
archive_mode = off
autovacuum = off
track_commit_timestamp = on
max_logical_replication_workers = 0
fsync = off
jit = off
restore_command = '%[6]s'
recovery_target_time = '%[7]s+00'
recovery_target_inclusive = on
recovery_target_timeline = latest
recovery_target_action = promote
`, s.Data, s.Work, port, socket, prepared, s.Restore, to.UTC().Format("2006-01-02 15:04:05.999999"))
	return errors.Join(
		os.WriteFile(filepath.Join(s.Work, "postgresql.conf"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(s.Work, "pg_hba.conf"), []byte("local all all trust\n"), 0o600),
		os.WriteFile(filepath.Join(s.Work, "pg_ident.conf"), nil, 0o600),
		// A copy of a replica would go on following.
		atomicfile.Remove(filepath.Join(s.Data, "standby.signal")),
		atomicfile.Remove(filepath.Join(s.Data, "postmaster.pid")),
		os.WriteFile(filepath.Join(s.Data, "postgresql.auto.conf"), nil, 0o600),
		os.WriteFile(filepath.Join(s.Data, "recovery.signal"), nil, 0o600))
}

// running is the server.
type running struct {
	process *exec.Cmd
	ended   chan struct{}
	// fatal is what it said last before it gave up, and reached the time of the last transaction that it replayed: once it has ended.
	fatal, reached string
}

func (s *Server) start(ctx context.Context) (*running, error) {
	said, saying, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r := &running{ended: make(chan struct{})}
	r.process = exec.CommandContext(ctx, filepath.Join(s.Programs, "postgres"), "-D", s.Data, "-c", "config_file="+filepath.Join(s.Work, "postgresql.conf"))
	r.process.Env = append(os.Environ(), "LC_ALL=C")
	r.process.Stdout, r.process.Stderr = saying, saying
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	r.process.Cancel = func() error { return r.process.Process.Signal(syscall.SIGQUIT) }
	if err := errors.Join(r.process.Start(), saying.Close()); err != nil {
		said.Close()
		return nil, err
	}
	go func() {
		defer close(r.ended)
		defer said.Close()
		r.listen(said)
		_ = r.process.Wait()
	}()
	return r, nil
}

var (
	fatalForm   = regexp.MustCompile(`(?:FATAL|PANIC): +(.+)$`)
	reachedForm = regexp.MustCompile(`last completed transaction was at log time (.+)$`)
)

// listen passes on what the server and its commands say, until all of them have ended.
func (r *running) listen(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(os.Stderr, line)
		if found := fatalForm.FindStringSubmatch(line); found != nil && !strings.Contains(line, "the database system is") {
			r.fatal = found[1]
		}
		if found := reachedForm.FindStringSubmatch(line); found != nil {
			r.reached = found[1]
		}
	}
}

var errEnded = errors.New("the server has ended")

// recovers waits until the server lets somebody in, which it does when it takes writes and not before.
func (r *running) recovers(ctx context.Context, socket string) error {
	for {
		select {
		case <-r.ended:
			return errors.Join(errEnded, ctx.Err())
		case <-time.After(look):
		}
		connection, err := pgconn.Connect(ctx, "host="+socket+" port="+port+" user=postgres dbname=template1 connect_timeout=5 sslmode=disable passfile=/dev/null")
		if err == nil {
			link.HangUp(connection)
			return nil
		}
		if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.Code != startingUp {
			// It answers, whatever is wrong with that.
			return nil
		}
	}
}

// explained is why the server did not come to the target.
func (r *running) explained(target mover.Target, err error) error {
	switch {
	case !errors.Is(err, errEnded):
		return err
	case strings.Contains(r.fatal, "recovery ended before configured recovery target was reached"):
		what := ""
		if r.reached != "" {
			what = ": the last transaction that there is ended at " + r.reached
		}
		return outOfRange("%s was not reached%s", inWords(target.Time), what)
	case strings.Contains(r.fatal, "requested recovery stop point is before consistent recovery point"):
		return outOfRange("%s is before the backup was whole: take an earlier backup", inWords(target.Time))
	case r.fatal != "":
		return fmt.Errorf("the recovery failed: %s", r.fatal)
	}
	return fmt.Errorf("the recovery failed: %s", r.process.ProcessState)
}
