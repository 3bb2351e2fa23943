// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
}

// Lines are the facts as a mover reads them.
func (f Facts) Lines() string {
	return fmt.Sprintf("serverVersion=%s\ndatabases=%d\naccounts=%d\nnonTransactionalTables=%d\n",
		f.Version, f.Databases, f.Accounts, f.NonTransactional)
}

// Dump writes all of the server.
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
	if len(content.Databases) > 0 {
		if err := s.databases(ctx, content.Databases, to); err != nil {
			return Facts{}, err
		}
	}
	statements, accounts, err := d.Accounts(ctx)
	if err != nil {
		return Facts{}, err
	}
	facts.Accounts = accounts
	for _, statement := range append(statements, strings.TrimSuffix(lastLine, "\n")) {
		if !strings.HasPrefix(statement, "--") {
			statement += ";"
		}
		if _, err := io.WriteString(to, statement+"\n"); err != nil {
			return Facts{}, err
		}
	}
	return facts, nil
}

// databases has mysqldump write them as they are at one moment.
func (s *Source) databases(ctx context.Context, names []string, to io.Writer) error {
	password, err := s.Password()
	if err != nil {
		return err
	}
	host, port, found := strings.Cut(s.Address, ":")
	if !found {
		return fmt.Errorf("address %q has no port", s.Address)
	}
	arguments := []string{"--no-defaults", "--host=" + host, "--port=" + port, "--protocol=TCP", "--user=" + s.Username,
		"--single-transaction", "--quick", "--routines", "--events", "--triggers", "--hex-blob", "--set-gtid-purged=OFF",
		"--default-character-set=utf8mb4", "--max-allowed-packet=1G", "--no-tablespaces", "--skip-dump-date"}
	if s.CAFile != "" {
		arguments = append(arguments, "--ssl-mode=VERIFY_IDENTITY", "--ssl-ca="+s.CAFile)
	} else {
		arguments = append(arguments, "--get-server-public-key")
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, s.Program, append(append(arguments, "--databases", "--"), names...)...)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+password)
	cmd.Stdout, cmd.Stderr = to, &said
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("mysqldump failed: %w: %s", err, strings.TrimSpace(said.String())), context.Cause(ctx))
	}
	return nil
}
