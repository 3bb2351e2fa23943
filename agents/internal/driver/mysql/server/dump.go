// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/zeroinfra/agents/internal/driver/mysql"
)

// A dump is SQL: a first line, what mysqldump writes of all databases but the server's own, the accounts with what they
// are granted, and a last line, without which it is not whole.
const (
	firstLine = "-- zeroinfra dump 1 of MySQL "
	lastLine  = "-- zeroinfra dump is whole\n"
	// transactionsLine, before the last one, has the GTID set of what is in the dump, where logs can go on from it.
	transactionsLine = "-- zeroinfra transactions "
)

// Source is a server that is dumped.
type Source struct {
	// Options lead to it, by host and port.
	mysql.Options
	// Program is mysqldump.
	Program string
}

// Facts are what is told of a dump.
type Facts struct {
	// Version of the server.
	Version string
	// Databases that are in it, and Accounts.
	Databases, Accounts int
	// NonTransactional tables are not as they were at the moment of all others.
	NonTransactional int
	// Archive is the number of the data, by which its archive is found; empty for a dump that no logs can be replayed on.
	Archive string
}

// Lines are the facts as a mover reads them.
func (f Facts) Lines() string {
	lines := fmt.Sprintf("serverVersion=%s\ndatabases=%d\naccounts=%d\nnonTransactionalTables=%d\n",
		f.Version, f.Databases, f.Accounts, f.NonTransactional)
	if f.Archive != "" {
		lines += "archive=" + f.Archive + "\n"
	}
	return lines
}

// Dump writes all of the server. Logs can be replayed on the dump where the server archives them: it then stands still
// for a moment in the beginning, and tables and accounts stay as they are while the dump lasts.
func (s *Source) Dump(ctx context.Context, to io.Writer) (Facts, error) {
	d := mysql.New(s.Options)
	content, err := d.Content(ctx)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{Version: content.Version, Databases: len(content.Databases), NonTransactional: content.NonTransactional}
	if _, err := io.WriteString(to, firstLine+content.Version+"\n"); err != nil {
		return Facts{}, err
	}
	archive, err := d.Archive(ctx)
	if err != nil {
		return Facts{}, err
	}
	var moment mysql.Moment
	if archive != "" {
		moment, err = s.replayable(ctx, d, &facts, to)
	} else {
		err = s.databases(ctx, content.Databases, to)
		if err == nil {
			err = s.accounts(ctx, d, &facts, to)
		}
	}
	if err != nil {
		return Facts{}, err
	}
	last := lastLine
	if moment.Archive != "" {
		facts.Archive, last = moment.Archive, transactionsLine+moment.Transactions+"\n"+lastLine
	}
	_, err = io.WriteString(to, last)
	return facts, err
}

// replayable writes what the server has at a moment that its logs go on from.
func (s *Source) replayable(ctx context.Context, d *mysql.Driver, facts *Facts, to io.Writer) (moment mysql.Moment,
	err error) {
	var running *dumping
	begin := func(seen mysql.Seen) error {
		// A database that was made a moment ago is in it, too.
		content, err := d.Content(ctx)
		if err != nil {
			return err
		}
		facts.Databases, facts.NonTransactional = len(content.Databases), content.NonTransactional
		if running, err = s.begin(ctx, content.Databases, to); err != nil || running == nil {
			return err
		}
		return seen(running.cmd.Process.Pid, running.over)
	}
	err = d.At(ctx, begin, func(is mysql.Moment) error {
		moment = is
		if err := running.end(ctx); err != nil {
			return err
		}
		return s.accounts(ctx, d, facts, to)
	})
	if err != nil {
		err = errors.Join(err, running.abandon())
	}
	return moment, err
}

// accounts writes the statements that make them.
func (s *Source) accounts(ctx context.Context, d *mysql.Driver, facts *Facts, to io.Writer) error {
	statements, accounts, err := d.Accounts(ctx)
	if err != nil {
		return err
	}
	facts.Accounts = accounts
	for _, statement := range statements {
		if _, err := io.WriteString(to, statement+";\n"); err != nil {
			return err
		}
	}
	return nil
}

// databases has mysqldump write them as they are at one moment.
func (s *Source) databases(ctx context.Context, names []string, to io.Writer) error {
	running, err := s.begin(ctx, names, to)
	if err != nil {
		return err
	}
	return running.end(ctx)
}

// dumping is a mysqldump that was started; nil where there is nothing to be dumped.
type dumping struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	// over is closed when it has ended, as err says.
	over chan struct{}
	err  error
}

// begin starts mysqldump.
func (s *Source) begin(ctx context.Context, names []string, to io.Writer) (*dumping, error) {
	if len(names) == 0 {
		return nil, nil
	}
	password, err := s.Password()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, fmt.Errorf("the server has no address: %w", err)
	}
	arguments := []string{"--no-defaults", "--host=" + host, "--port=" + port, "--protocol=TCP", "--user=" + s.Username,
		"--single-transaction", "--quick", "--routines", "--events", "--triggers", "--hex-blob", "--set-gtid-purged=OFF",
		"--default-character-set=utf8mb4", "--max-allowed-packet=1G", "--no-tablespaces", "--skip-dump-date"}
	if s.CAFile != "" {
		arguments = append(arguments, "--ssl-mode=VERIFY_IDENTITY", "--ssl-ca="+s.CAFile)
	} else {
		arguments = append(arguments, "--get-server-public-key")
	}
	r := &dumping{cmd: exec.CommandContext(ctx, s.Program, append(append(arguments, "--databases", "--"), names...)...),
		over: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), "MYSQL_PWD="+password)
	r.cmd.Stdout, r.cmd.Stderr = to, &r.said
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("mysqldump failed: %w", err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.over)
	}()
	return r, nil
}

// end waits for it.
func (r *dumping) end(ctx context.Context) error {
	if r == nil {
		return nil
	}
	if <-r.over; r.err != nil {
		return errors.Join(fmt.Errorf("mysqldump failed: %w: %s", r.err, strings.TrimSpace(r.said.String())),
			context.Cause(ctx))
	}
	return nil
}

// abandon ends one that still runs.
func (r *dumping) abandon() error {
	if r == nil {
		return nil
	}
	_ = r.cmd.Process.Kill()
	return r.end(context.Background())
}
