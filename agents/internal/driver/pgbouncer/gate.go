// SPDX-License-Identifier: Apache-2.0

package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// HoldFile, in the folder of the socket, says until when clients wait, in seconds since 1970, and for whom. Whoever
// finds clients that wait although that is over has them go on: the image's probe does.
const HoldFile = "pgbouncer.hold"

const (
	// look is the time between looks at who takes writes.
	look = 100 * time.Millisecond
	// givenUp is how long a server takes writes as before, although clients were to wait for another one, until nobody
	// expects that any more.
	givenUp = 5 * time.Second
)

// Gate is the PgBouncer of one pod, and the server that it leads to.
type Gate struct {
	// Run is the folder of the unix socket, and Port that of the socket and of the process.
	Run  string
	Port int
	// Server is where the server that takes writes is found: a host, which leads to another server when another one does,
	// and its port.
	Server     string
	ServerPort int
	// Role that logs in there, and the credential with its password below Secrets.
	Role, Credential, Secrets string
	// CAFile is what the certificate of the server must lead to; empty where it does not speak TLS.
	CAFile string
	// Log tells what is done.
	Log *slog.Logger
}

// Hold has clients wait once their transactions have ended, and returns when no server is in use any more. They go on
// by themselves: when another server takes writes than now, when the one that does goes on doing so for a while, or
// when the time is over. Who is in a transaction for longer than the context lasts is not waited for: clients that come
// after that wait all the same.
func (g *Gate) Hold(ctx context.Context, length time.Duration) error {
	now, err := g.primary(ctx)
	if err != nil {
		g.Log.Warn("the primary cannot be determined: clients wait for the next one", "problem", err.Error())
	}
	mark := strconv.FormatInt(time.Now().Add(length).Unix()+1, 10) + " " + strconv.Itoa(os.Getpid())
	if err := atomicfile.Write(g.holdFile(), []byte(mark), 0o600); err != nil {
		return err
	}
	said, err := g.keep(mark, now.identity, length)
	if err != nil {
		return errors.Join(err, g.letGo(context.WithoutCancel(ctx), mark))
	}
	defer said.Close()
	heard := make(chan string, 1)
	go func() {
		word, _ := io.ReadAll(io.LimitReader(said, int64(len(held))))
		heard <- string(word)
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("clients are still in transactions, and the next ones wait: %w", context.Cause(ctx))
	case word := <-heard:
		if word != held {
			return errors.New("clients cannot be made to wait")
		}
	}
	return nil
}

// held is what Keep says once all clients wait.
const held = "held"

// keep starts what has clients wait and go on, whatever becomes of this process, and returns what that says.
func (g *Gate) keep(mark, primary string, length time.Duration) (*os.File, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	said, saying, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer saying.Close()
	cmd := exec.Command(own, "pgbouncer", "keep", mark, primary, "--length", length.String(), "--run", g.Run, "--port",
		strconv.Itoa(g.Port), "--server", g.Server,
		"--server-port", strconv.Itoa(g.ServerPort), "--role", g.Role, "--credential", g.Credential, "--secrets", g.Secrets,
		"--ca", g.CAFile)
	cmd.Stdout, cmd.SysProcAttr = saying, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		said.Close()
		return nil, err
	}
	return said, cmd.Process.Release()
}

// Keep has clients wait, says so once all do, and lets them go on when another server takes writes than the one that is
// named, when that one goes on as if nothing were to happen, or when the context ends. The
// mark says for whom they wait: whoever has them wait for somebody else later lets them go.
func (g *Gate) Keep(ctx context.Context, mark, primary string, say io.Writer) error {
	console, err := g.console(ctx)
	if err != nil {
		return errors.Join(err, g.letGo(context.WithoutCancel(ctx), mark))
	}
	// The console does not answer while somebody is in a transaction, and gives the pause up when it is left alone.
	pausing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	answered := make(chan error, 1)
	go func() {
		_, err := ask(pausing, console, "PAUSE")
		if err == nil || errors.As(err, new(*pgconn.PgError)) {
			// It refuses where clients wait already.
			_, _ = io.WriteString(say, held)
		}
		answered <- err
	}()
	g.awaitAnother(ctx, primary)
	err = g.letGo(context.WithoutCancel(ctx), mark)
	cancel()
	if problem := <-answered; problem != nil {
		g.Log.Info("clients did not all wait", "problem", problem.Error())
	}
	link.HangUp(console)
	return err
}

// awaitAnother returns when nobody has a reason to wait any more.
func (g *Gate) awaitAnother(ctx context.Context, primary string) {
	looks := time.NewTicker(look)
	defer looks.Stop()
	asBefore := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		now, err := g.primary(ctx)
		switch {
		case err == nil && now.identity != primary:
			return
		case err != nil || now.paused:
			asBefore = time.Now()
		case time.Since(asBefore) > givenUp:
			g.Log.Info("the primary has not changed: clients go on")
			return
		}
	}
}

// letGo has clients go on, unless they wait for somebody else by now.
func (g *Gate) letGo(ctx context.Context, mark string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now, err := os.ReadFile(g.holdFile())
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(now) != mark {
		return nil
	}
	if err != nil {
		return err
	}
	return link.Until(ctx, "clients cannot go on", func() (bool, error) {
		console, err := g.console(ctx)
		if err != nil {
			return false, err
		}
		defer link.HangUp(console)
		// It refuses where nobody waits.
		if _, err := ask(ctx, console, "RESUME"); err != nil && !errors.As(err, new(*pgconn.PgError)) {
			return false, err
		}
		return true, atomicfile.Remove(g.holdFile())
	})
}

func (g *Gate) holdFile() string { return filepath.Join(g.Run, HoldFile) }

// console logs in over the socket, as one who may do everything.
func (g *Gate) console(ctx context.Context) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=%s passfile=/dev/null sslmode=disable",
		g.Run, g.Port, consoleUser, consoleDatabase))
	if err != nil {
		return nil, err
	}
	return open(ctx, config)
}

// server is one that takes writes.
type server struct {
	// identity tells it from others: by the timeline that it writes and the time of its start.
	identity string
	// paused says that its commits wait while another one catches up.
	paused bool
}

// primary is the server that takes writes. That there is none is an error.
func (g *Gate) primary(ctx context.Context) (server, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	password, _, err := link.Password(g.Secrets, g.Credential)
	if err != nil {
		return server{}, err
	}
	encryption := "sslmode=disable"
	if g.CAFile != "" {
		encryption = "sslmode=verify-full sslrootcert=" + g.CAFile
	}
	config, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=postgres passfile=/dev/null %s",
		g.Server, g.ServerPort, g.Role, encryption))
	if err != nil {
		return server{}, err
	}
	config.Password, config.Fallbacks = password, nil
	config.RuntimeParams = map[string]string{"application_name": "zeroinfra", "search_path": "pg_catalog, pg_temp"}
	connection, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return server{}, err
	}
	defer link.HangUp(connection)
	if connection.ParameterStatus("in_hot_standby") == "on" {
		return server{}, errors.New("the server takes no writes")
	}
	result := connection.ExecParams(ctx, "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' || "+
		"extract(epoch FROM pg_postmaster_start_time()), strpos(current_setting('synchronous_standby_names'), $1) > 0",
		[][]byte{[]byte(link.PausedPrefix)}, nil, nil, nil).Read()
	if result.Err != nil {
		return server{}, result.Err
	}
	if len(result.Rows) != 1 {
		return server{}, fmt.Errorf("%d rows came in place of one", len(result.Rows))
	}
	return server{identity: string(result.Rows[0][0]), paused: string(result.Rows[0][1]) == "t"}, nil
}
