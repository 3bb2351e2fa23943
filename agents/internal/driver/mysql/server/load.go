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
}

// Load makes the data. It is whole when there is no error.
func (t *Target) Load(ctx context.Context, from io.Reader) error {
	stream, err := newDump(from)
	if err != nil {
		return err
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
		return errors.New("the dump is not whole: its last line is missing")
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
	d.tail = bytes.Clone(d.tail[max(0, len(d.tail)-len(lastLine)-1):])
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
	arguments := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + t.Dir, "--socket=" + r.socket, "--pid-file=" + r.socket + ".pid",
		"--skip-networking", noFiles, "--mysqlx=OFF", "--skip-log-bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--max-allowed-packet=1G", "--innodb-flush-log-at-trx-commit=2",
		// Half of what it needs by default, to stay within the memory of a mover.
		"--performance-schema=OFF", "--innodb-buffer-pool-size=64M"}
	r.cmd = exec.Command(path, append(arguments, asRoot()...)...)
	r.cmd.Stdout, r.cmd.Stderr = os.Stderr, os.Stderr
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { r.exited <- r.cmd.Wait() }()
	return r, nil
}

// fill waits for the server, and has the client give it the dump.
func (t *Target) fill(ctx context.Context, r *running, from io.Reader) error {
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
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, t.Client, "--no-defaults", "--socket="+r.socket, "--user=root", "--binary-mode", "--default-character-set=utf8mb4",
		"--max-allowed-packet=1G")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = from, os.Stderr, &said
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("mysql failed: %w: %s", err, strings.TrimSpace(said.String())), context.Cause(ctx))
	}
	// The data stands for one transaction, which is in no binary log: a member of a group that does not have it copies
	// all data.
	return d.Purge(ctx, uuid()+":1")
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
