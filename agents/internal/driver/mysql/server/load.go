// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/binlog"
	"github.com/zeroinfra/agents/internal/pointintime"
)

const loadPoll = 100 * time.Millisecond

// Target is new data that a dump goes into, by a server of its own, which nobody else can reach.
type Target struct {
	// Program is mysqld, and Client mysql.
	Program, Client string
	// Dir is the folder below which the data is to be.
	Dir string
	// Run is a folder for the socket.
	Run string
	// Replay is what is carried out on the data of the dump; nil where that is to be as the dump has it.
	Replay *binlog.Replay
}

// Load makes the data. It is whole when there is no error.
func (t *Target) Load(ctx context.Context, from io.Reader) error {
	stream, err := newDump(from)
	if err != nil {
		return err
	}
	if t.Replay != nil {
		if err := t.Replay.Check(ctx); err != nil {
			return err
		}
	}
	data := filepath.Join(t.Dir, dataFolder)
	if err := initialize(ctx, t.Program, data, "--no-defaults"); err != nil {
		return err
	}
	running, err := t.start(data)
	if err != nil {
		return err
	}
	if err := errors.Join(t.fill(ctx, running, stream), running.end()); err != nil {
		return err
	}
	if !stream.whole {
		return errors.New("the dump is incomplete: its last line is missing")
	}
	syscall.Sync()
	return nil
}

// dump is a stream whose first line was read, and whose last one is looked for.
type dump struct {
	from  *bufio.Reader
	tail  []byte
	whole bool
}

// maxTail is how much of the end of a dump is looked at.
const maxTail = 256 << 10

// transactions is the GTID set of what is in a whole dump; empty where logs cannot go on from it.
func (d *dump) transactions() string {
	lines := strings.Split(strings.TrimSuffix(string(d.tail), lastLine), "\n")
	if len(lines) < 2 {
		return ""
	}
	found, ok := strings.CutPrefix(lines[len(lines)-2], transactionsLine)
	if !ok {
		return ""
	}
	return found
}

func newDump(from io.Reader) (*dump, error) {
	d := &dump{from: bufio.NewReader(from)}
	line, err := d.from.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, firstLine) {
		return nil, errors.New("this is no dump of MySQL: its first line is another one")
	}
	return d, nil
}

// Read implements io.Reader.
func (d *dump) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	d.tail = append(d.tail, p[:n]...)
	if extra := len(d.tail) - maxTail; extra > maxTail {
		d.tail = d.tail[:copy(d.tail, d.tail[extra:])]
	}
	d.whole = bytes.HasSuffix(d.tail, []byte(lastLine))
	return n, err
}

// running is the server that takes a dump.
type running struct {
	cmd    *exec.Cmd
	socket string
	exited chan error
}

func (t *Target) start(data string) (*running, error) {
	path, err := exec.LookPath(t.Program)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	r := &running{socket: filepath.Join(t.Run, "load.sock"), exited: make(chan error, 1)}
	arguments := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + t.Dir, "--socket=" + r.socket,
		"--pid-file=" + r.socket + ".pid",
		"--skip-networking", noFiles, "--mysqlx=OFF", "--skip-log-bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
		"--max-allowed-packet=1G", "--innodb-flush-log-at-trx-commit=2",
		// Half of what it needs by default, to stay within the memory of a mover.
		"--performance-schema=OFF", "--innodb-buffer-pool-size=64M",
		// What somebody has scheduled in the server does not happen meanwhile.
		"--event-scheduler=OFF"}
	r.cmd = exec.Command(path, append(arguments, asRoot()...)...)
	r.cmd.Stdout, r.cmd.Stderr = os.Stderr, os.Stderr
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { r.exited <- r.cmd.Wait() }()
	return r, nil
}

// fill waits for the server, and has the client give it the dump.
func (t *Target) fill(ctx context.Context, r *running, from *dump) error {
	d := mysql.New(mysql.Options{Address: r.socket, Username: "root", Password: func() (string, error) { return "", nil }})
	for {
		_, err := d.Content(ctx)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server that takes the dump does not answer: %w", err)
		case ended := <-r.exited:
			r.exited <- ended
			return fmt.Errorf("the server that takes the dump has ended: %w", ended)
		case <-time.After(loadPoll):
		}
	}
	if err := t.carryOut(ctx, r, from); err != nil {
		return err
	}
	if t.Replay != nil {
		if err := t.replay(ctx, r, from); err != nil {
			return err
		}
	}
	// The data stands for one transaction, which is in no binary log: a member of a group that does not have it copies
	// all data.
	return d.Purge(ctx, uuid()+":1")
}

// carryOut has the client carry SQL out.
func (t *Target) carryOut(ctx context.Context, r *running, from io.Reader) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, t.Client, "--no-defaults", "--socket="+r.socket, "--user=root", "--binary-mode",
		"--default-character-set=utf8mb4", "--max-allowed-packet=1G")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = from, os.Stderr, &said
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("mysql failed: %w: %s", err, strings.TrimSpace(said.String())), context.Cause(ctx))
	}
	return nil
}

// replay carries out the logs that lead from the dump to the time that is wanted.
func (t *Target) replay(ctx context.Context, r *running, from *dump) error {
	has := from.transactions()
	if !from.whole || has == "" {
		return pointintime.Refused("the dump does not say which transactions it has: it was made without an archive, or " +
			"before that began. Take a later backup")
	}
	var sql strings.Builder
	// The logs of a group have changes of the instance's own accounts, which no dump has. They get their passwords when
	// the server starts.
	for _, a := range accounts {
		fmt.Fprintf(&sql, "CREATE USER IF NOT EXISTS '%s'@'%%' IDENTIFIED WITH caching_sha2_password BY '%s' ACCOUNT LOCK;\n",
			a.user, rand.Text())
	}
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := t.Replay.Write(ctx, has, writer)
		written <- err
		// Without an error the client comes to the end of what it reads.
		_ = writer.CloseWithError(err)
	}()
	err := t.carryOut(ctx, r, io.MultiReader(strings.NewReader(sql.String()), reader))
	// The client may have ended before all is written.
	_ = reader.Close()
	if failed := <-written; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed
	}
	return err
}

func uuid() string { return uuidOf(rand.Text()) }

// end stops the server, which writes all to its files.
func (r *running) end() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := <-r.exited; err != nil {
		return fmt.Errorf("the server that takes the dump has not ended well: %w", err)
	}
	return nil
}
