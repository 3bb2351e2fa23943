// SPDX-License-Identifier: Apache-2.0

package alone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

const (
	// look is the time between looks at whether the server lets somebody in.
	look = 200 * time.Millisecond
	// startingUp is what a server says that does not let anybody in yet.
	startingUp = "57P03"
	// Port that its socket is called by.
	Port = "5432"
	// User is its superuser.
	User = "postgres"
)

// ErrEnded says that the server has ended, and nobody had stopped it.
var ErrEnded = errors.New("the server has ended")

// Server is a server that is to run.
type Server struct {
	// Programs is the folder of the server's programs, Data that of its data, and Work one on the same volume for its
	// configuration.
	Programs, Data, Work string
	// Settings are further lines of its configuration; of a name that is there twice the last counts.
	Settings string
	// Hear is told each line that the server says; nil for nobody.
	Hear func(line string)
}

// common is how it runs whatever it is for. It must not go on with subscriptions, of which the publishers have one slot
// for it and the server that the data is of. What becomes of the data is synced as a whole by whoever takes it over.
const common = `data_directory = '%[1]s'
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
archive_mode = off
autovacuum = off
max_logical_replication_workers = 0
fsync = off
jit = off
%[5]s`

// Start starts it. It is killed when the context ends; Running.Close has to be called in any case.
func (s *Server) Start(ctx context.Context) (*Running, error) {
	// Paths of sockets are short.
	socket, err := os.MkdirTemp("", "alone-")
	if err != nil {
		return nil, err
	}
	r := &Running{Socket: socket, ended: make(chan struct{}), hear: s.Hear}
	config := fmt.Sprintf(common, s.Data, s.Work, Port, socket, s.Settings)
	err = errors.Join(
		os.WriteFile(filepath.Join(s.Work, "postgresql.conf"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(s.Work, "pg_hba.conf"), []byte("local all all trust\n"), 0o600),
		os.WriteFile(filepath.Join(s.Work, "pg_ident.conf"), nil, 0o600))
	if err == nil {
		err = r.start(ctx, exec.CommandContext(ctx, filepath.Join(s.Programs, "postgres"), "-D", s.Data, "-c", "config_file="+
			filepath.Join(s.Work, "postgresql.conf")))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(socket))
	}
	return r, nil
}

// Running is a server that was started.
type Running struct {
	// Socket is the folder of its socket.
	Socket string

	process *exec.Cmd
	ended   chan struct{}
	hear    func(line string)
	// fatal is what it said last before it gave up.
	fatal string
}

func (r *Running) start(ctx context.Context, process *exec.Cmd) error {
	said, saying, err := os.Pipe()
	if err != nil {
		return err
	}
	r.process = process
	process.Env = append(os.Environ(), "LC_ALL=C")
	process.Stdout, process.Stderr = saying, saying
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGQUIT) }
	if err := errors.Join(process.Start(), saying.Close()); err != nil {
		said.Close()
		return err
	}
	go func() {
		defer close(r.ended)
		defer said.Close()
		r.listen(said)
		_ = process.Wait()
	}()
	return nil
}

var fatalForm = regexp.MustCompile(`(?:FATAL|PANIC): +(.+)$`)

// listen passes on what the server and its commands say, until all of them have ended.
func (r *Running) listen(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(os.Stderr, line)
		// Whoever asks too early is told so, and the server goes on.
		if found := fatalForm.FindStringSubmatch(line); found != nil && !strings.Contains(line, "the database system is") {
			r.fatal = found[1]
		}
		if r.hear != nil {
			r.hear(line)
		}
	}
}

// Config leads to a database of it, as its superuser.
func (r *Running) Config(database string) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig("host=" + r.Socket + " port=" + Port + " user=" + User +
		" dbname=template1 connect_timeout=5 sslmode=disable passfile=/dev/null")
	if err != nil {
		return nil, err
	}
	config.Database = database
	return config, nil
}

// Ready waits until the server lets somebody in. The error is ErrEnded when it has ended before.
func (r *Running) Ready(ctx context.Context) error {
	config, err := r.Config("template1")
	if err != nil {
		return err
	}
	for {
		select {
		case <-r.ended:
			return errors.Join(ErrEnded, ctx.Err())
		case <-time.After(look):
		}
		connection, err := pgconn.ConnectConfig(ctx, config)
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

// Why is what the server said last before it gave up, or how it ended; once it has ended.
func (r *Running) Why() string {
	<-r.ended
	if r.fatal != "" {
		return r.fatal
	}
	return r.process.ProcessState.String()
}

// Stop has it end as it should: what is in memory is written.
func (r *Running) Stop() error {
	if err := r.process.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	if <-r.ended; !r.process.ProcessState.Success() {
		return fmt.Errorf("the server did not stop well: %s", r.Why())
	}
	return nil
}

// Close ends it at once where it still runs, and leaves nothing of it but its data.
func (r *Running) Close() error {
	select {
	case <-r.ended:
	default:
		_ = r.process.Process.Signal(syscall.SIGQUIT)
		<-r.ended
	}
	return os.RemoveAll(r.Socket)
}
