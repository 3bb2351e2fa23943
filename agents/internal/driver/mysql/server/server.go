// SPDX-License-Identifier: Apache-2.0

// Package server makes the data of a MySQL, starts it with the accounts of the instance, and carries what is in it
// elsewhere.
package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/platform-core/agentproto/configfile"
)

const (
	// dataFolder is that of the server, below the volume's.
	dataFolder = "mysql"
	// mark outlives the data: where there was some, there is never an empty server in its place.
	mark = ".zeroinfra.initialized"
	// Socket is in the folder that lives as long as the pod.
	Socket = "mysql.sock"
	// ClientFile, beside it, is the option file by which MySQL's client logs in as the pod's own account.
	ClientFile = "mysql.cnf"
	// initFile, beside the option file, is in memory: it has the passwords of the accounts.
	initFile = "mysql-init.sql"
	// initialConfig, beside it, is the option file that the data is made with.
	initialConfig = "my-initialize.cnf"
	// noFiles has statements read and write no files. Debian's own folder for that is not there.
	noFiles = "--secure-file-priv=NULL"
	// internal is the account of the pod's own containers. Nobody else knows its password, which is another one after
	// each start.
	internal = mysql.OwnPrefix
	// internalBytes is how long that password is.
	internalBytes = 24
)

const grantAll = "GRANT ALL PRIVILEGES ON *.* TO %s WITH GRANT OPTION"

// accounts of the instance, by the credential with their password.
var accounts = []struct {
	credential, user string
	grants           []string
}{
	{"root", "root", []string{grantAll}},
	{"app", "app", []string{"GRANT ALL PRIVILEGES ON `app`.* TO %s"}},
	// By it members of a group copy what they lack, and are looked after.
	{GroupCredential, GroupUser, []string{
		"GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_ADMIN, GROUP_REPLICATION_STREAM, " +
			"SYSTEM_VARIABLES_ADMIN ON *.* TO %s",
		"GRANT SELECT ON performance_schema.* TO %s",
	}},
	// By it routers before a group ask for its members.
	{RouterCredential, RouterUser, mysql.RouterGrants()},
}

// Server is one in its pod.
type Server struct {
	// Program is mysqld.
	Program string
	// Config is its option file.
	Config string
	// Dir is the folder of the volume, Run that which the containers of the pod share, and Secrets has a folder for each
	// credential.
	Dir, Run, Secrets string
	// SlowLog is the file of the slow query log, which is forwarded to standard output; empty for none.
	SlowLog string
	// Group that it is to be a member of; nil for a server alone.
	Group *Group
	// Archive is the file that says where its binary logs are archived; empty for nowhere.
	Archive string
}

// Start makes the data where there is none, and becomes the server. Whoever calls it keeps any other process away from
// the volume.
func (s *Server) Start(ctx context.Context) error {
	program, err := s.program()
	if err == nil && s.Group != nil {
		err = checkPlugins(program)
	}
	if err != nil {
		return err
	}
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	if err := s.beside(); err != nil {
		return err
	}
	return syscall.Exec(program, s.Arguments(program), os.Environ())
}

// program is where mysqld is, behind links: it finds its messages and plugins from there.
func (s *Server) program() (string, error) {
	path, err := exec.LookPath(s.Program)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// Arguments of the server, its name first.
func (s *Server) Arguments(program string) []string {
	arguments := []string{program, "--defaults-file=" + s.Config, "--datadir=" + s.data(), "--tmpdir=" + s.temporary(),
		"--socket=" + filepath.Join(s.Run, Socket), "--pid-file=" + filepath.Join(s.Run, "mysqld.pid"),
		"--init-file=" + s.initFile(), noFiles}
	if s.SlowLog != "" {
		arguments = append(arguments, "--slow-query-log-file="+s.SlowLog)
	}
	if s.Group != nil {
		arguments = append(arguments, s.Group.arguments()...)
	}
	return append(arguments, asRoot()...)
}

func (s *Server) initFile() string { return filepath.Join(filepath.Dir(s.Config), initFile) }

// asRoot has the server run as root where a test does.
func asRoot() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// copied marks data that was copied as a whole from another server, until a server has started on it.
func (s *Server) copied() string { return filepath.Join(s.Dir, dataFolder+".copied") }

func (s *Server) data() string { return filepath.Join(s.Dir, dataFolder) }

// temporary is on the volume: the sorted rows of a large query would not fit elsewhere.
func (s *Server) temporary() string { return filepath.Join(s.Dir, "tmp") }

// Prepare does all that comes before the server.
func (s *Server) Prepare(ctx context.Context) error {
	if err := s.initialize(ctx); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.temporary()), os.Mkdir(s.temporary(), 0o700)); err != nil {
		return err
	}
	return s.writeAccounts()
}

// initialize makes the data in a folder that gets its name once it is whole: a start that is cut off begins anew.
func (s *Server) initialize(ctx context.Context) error {
	marked := filepath.Join(s.Dir, mark)
	_, err := os.Stat(s.data())
	_, noMark := os.Stat(marked)
	switch {
	case err == nil && noMark == nil:
		return nil
	case err == nil:
		return writeSynced(marked)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case noMark == nil:
		return fmt.Errorf("there was data here, and %s is gone: put it back, or delete the volume to begin anew", s.data())
	}
	config, err := s.withoutPlugins()
	if err != nil {
		return err
	}
	if err := initialize(ctx, s.Program, s.data(), "--defaults-file="+config); err != nil {
		return err
	}
	return writeSynced(marked)
}

// withoutPlugins writes the option file without what only plugins know, which are not loaded while the data is made.
func (s *Server) withoutPlugins() (string, error) {
	text, err := os.ReadFile(s.Config)
	if err != nil {
		return "", err
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "group_replication_") {
			kept.WriteString(line)
		}
	}
	path := filepath.Join(filepath.Dir(s.Config), initialConfig)
	return path, writePrivate(path, kept.String())
}

// initialize makes the data of a server.
func initialize(ctx context.Context, program, data string, first string) error {
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	// Its account root has no password, and is gone before anybody is let in.
	arguments := append([]string{first, "--initialize-insecure", "--datadir=" + fresh, "--tmpdir=" + filepath.Dir(data),
		noFiles}, asRoot()...)
	cmd := exec.CommandContext(ctx, path, arguments...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mysqld has not made its data: %w", err)
	}
	return errors.Join(os.Rename(fresh, data), syncDir(filepath.Dir(data)))
}

func writeSynced(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, time.Now().UTC().Format(time.RFC3339))
	return errors.Join(err, file.Sync(), file.Close(), syncDir(filepath.Dir(path)))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// writeAccounts writes what the server does before it lets anybody in, and how the pod's own containers log in, with a
// password that is worth nothing outside of the pod.
func (s *Server) writeAccounts() error {
	random := make([]byte, internalBytes)
	// It never fails.
	_, _ = rand.Read(random)
	password := hex.EncodeToString(random)
	// Nothing of it is in the binary log: members of a group each have an account of their own.
	lines := []string{"SET SESSION sql_log_bin = 0", "SET SESSION sql_mode = ''", "DROP USER IF EXISTS 'root'@'localhost'"}
	if _, err := os.Stat(s.copied()); err == nil {
		// It is other data than its source from now on, and is archived as that.
		lines = append(lines, "DROP TABLE IF EXISTS "+mysql.ArchiveTable)
	}
	lines = append(lines, mysql.ArchivingLines()...)
	for _, host := range []string{"localhost", "127.0.0.1"} {
		lines = append(lines, accountLines("'"+internal+"'@'"+host+"'", password, grantAll)...)
	}
	for _, a := range accounts {
		given, found, err := s.password(a.credential)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if a.user == "app" {
			lines = append(lines, "CREATE DATABASE IF NOT EXISTS `app`")
		}
		if a.user == RouterUser {
			lines = append(lines, mysql.RouterLines()...)
		}
		lines = append(lines, accountLines("'"+a.user+"'@'%'", given, a.grants...)...)
	}
	text := strings.Join(lines, ";\n") + ";\n"
	// The server's own public key serves those who come over TCP without TLS.
	client := "[client]\nuser = " + internal + "\npassword = " + password + "\nsocket = " + filepath.Join(s.Run, Socket) +
		"\nget-server-public-key\n"
	return errors.Join(writePrivate(s.initFile(), text), writePrivate(filepath.Join(s.Run, ClientFile), client))
}

// accountLines make an account and set its password. One that was valid before, beside it, stays valid. What parameters
// say of the passwords of users is not for it: it would be kept out when its password is old, and each start sets the
// same one again.
func accountLines(account, password string, grants ...string) []string {
	by := " IDENTIFIED WITH caching_sha2_password BY '" + escapes.Replace(password) + "'"
	lines := []string{"CREATE USER IF NOT EXISTS " + account + by,
		"ALTER USER " + account + " PASSWORD EXPIRE NEVER PASSWORD HISTORY 0 PASSWORD REUSE INTERVAL 0 DAY",
		"ALTER USER " + account + by + " ACCOUNT UNLOCK"}
	for _, grant := range grants {
		lines = append(lines, fmt.Sprintf(grant, account))
	}
	return lines
}

var escapes = strings.NewReplacer(`\`, `\\`, "'", "''")

// writePrivate replaces a file as a whole.
func writePrivate(path, text string) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// password of a credential as it is mounted now.
func (s *Server) password(credential string) (password string, found bool, err error) {
	data, err := os.ReadFile(filepath.Join(s.Secrets, credential, "password"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	password = strings.TrimSuffix(string(data), "\n")
	switch {
	case err != nil:
		return "", false, err
	case password == "" || strings.ContainsAny(password, "\n\r\x00"):
		return "", false, fmt.Errorf("the password of the credential %s is empty or has a line break: supply another one",
			credential)
	}
	return password, true, nil
}

// Driver logs in as the pod's own account.
func (s *Server) Driver() (*mysql.Driver, error) {
	text, err := os.ReadFile(filepath.Join(s.Run, ClientFile))
	if err != nil {
		return nil, fmt.Errorf("the server was not started yet: %w", err)
	}
	options, err := configfile.ReadMySQL(string(text))
	if err != nil {
		return nil, err
	}
	return mysql.New(mysql.Options{Address: options["socket"], Username: options["user"],
		Password: func() (string, error) { return options["password"], nil }}), nil
}

// Reload has a server that runs take over the passwords of its accounts, and its file. The passwords of before stay
// valid beside, until the next change or until they are discarded.
func (s *Server) Reload(ctx context.Context) error {
	if err := s.rotate(ctx); err != nil {
		return err
	}
	text, err := os.ReadFile(s.Config)
	if err != nil {
		return err
	}
	options, err := configfile.ReadMySQL(string(text))
	if err != nil {
		return err
	}
	d, err := s.Driver()
	if err != nil {
		return err
	}
	return d.Apply(ctx, options)
}

// rotate has the server take over the passwords of its accounts as they are mounted.
func (s *Server) rotate(ctx context.Context) error {
	d, err := s.Driver()
	if err != nil {
		return err
	}
	for _, a := range accounts {
		password, found, err := s.password(a.credential)
		if err == nil && found {
			err = d.Rotate(ctx, a.user, password)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
