// SPDX-License-Identifier: Apache-2.0

//go:build processes

package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/testmysql"
	"github.com/zeroinfra/agents/internal/testpki"
)

func wantSQL(s *started, text, want string) error {
	got, err := s.TrySQL(text)
	if err == nil && got != want {
		err = fmt.Errorf("%s gives %q and not %q", text, got, want)
	}
	return err
}

func (s *started) check(text, want string) {
	s.Helper()
	if err := wantSQL(s, text, want); err != nil {
		s.Error(err)
	}
}

func (s *started) parameters(t *testing.T) {
	s.Configure("max_connections = 77", "long_query_time = 0.5", `sql_mode = "STRICT_TRANS_TABLES,NO_ZERO_DATE"`,
		"innodb_buffer_pool_size = 64M", "default_time_zone = +08:00")
	reload := func() error { return s.Server.Server.Reload(t.Context()) }
	if err := reload(); err != nil {
		t.Fatal(err)
	}
	s.check("SELECT @@global.max_connections, @@global.long_query_time, @@global.time_zone, @@global.sql_mode",
		"77\t0.500000\t+08:00\tSTRICT_TRANS_TABLES,NO_ZERO_DATE")
	s.Until("the buffer pool is resized",
		func(context.Context) error { return wantSQL(s, "SELECT @@innodb_buffer_pool_size", "67108864") })
	// What is taken out, and what somebody set by hand, gets its default.
	s.SQL("SET GLOBAL wait_timeout = 5; SET PERSIST max_connect_errors = 7")
	s.Configure("long_query_time = 0.5")
	if err := reload(); err != nil {
		t.Fatal(err)
	}
	s.check("SELECT @@global.max_connections, @@global.long_query_time, @@global.wait_timeout, "+
		"@@global.max_connect_errors", "151\t0.500000\t28800\t100")
	for option, want := range map[string]string{
		"thread_cache_size = 1000000":            "can't be set to the value of '1000000'",
		"transaction_isolation = READ-SOMETHING": "READ-SOMETHING",
		"binlog_expire_logs_seconds = never":     "Incorrect argument type",
		"max_allowed_packet = 10000":             "10000",
	} {
		s.Configure(option)
		if err := reload(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", option, err)
		}
	}
	s.Configure()
	if err := reload(); err != nil {
		t.Error(err)
	}
}

func (s *started) rotation(t *testing.T) {
	const other = `other'password`
	s.SetPassword("root", other)
	for range 2 {
		if err := s.Server.Server.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, password := range []string{testmysql.Password, other} {
		if err := s.answers("root", password); err != nil {
			t.Errorf("the password %q is not valid: %v", password, err)
		}
	}
	s.SQL("ALTER USER root DISCARD OLD PASSWORD")
	if err := s.answers("root", testmysql.Password); err == nil {
		t.Error("the former password is valid")
	}
	if err := s.answers("app", testmysql.AppPassword); err != nil {
		t.Error(err)
	}
}

func TestStart(t *testing.T) {
	// What was acknowledged is there after a kill.
	s := start(t, "innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1")
	s.SQL("CREATE TABLE app.kept (id INT PRIMARY KEY); INSERT INTO app.kept VALUES (1)")
	s.check("SELECT GROUP_CONCAT(User, '@', Host ORDER BY User, Host) FROM mysql.user WHERE User NOT LIKE 'mysql.%'",
		"app@%,root@%,zeroinfra@127.0.0.1,zeroinfra@localhost")
	s.Kill()
	s.SetPassword("root", "since-then")
	s.Start()
	s.check("SELECT COUNT(*) FROM app.kept", "1")
	if err := s.answers("root", "since-then"); err != nil {
		t.Error(err)
	}
	if err := s.answers("root", testmysql.Password); err == nil {
		t.Error("the password of before is valid")
	}
	s.Stop()
	data := filepath.Join(s.Server.Server.Dir, "mysql")
	if err := os.Rename(data, data+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := s.Server.Server.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "there was data here") {
		t.Errorf("an empty server takes the place of data: %v", err)
	}
}

// What parameters say of the passwords of users keeps out nobody who looks after the server, and no start.
func TestPasswordPolicies(t *testing.T) {
	s := start(t, "default_password_lifetime = 1", "password_history = 3", "password_reuse_interval = 30")
	for range 2 {
		s.Stop()
		s.Start()
	}
	s.SQL("UPDATE mysql.user SET password_last_changed = NOW() - INTERVAL 2 DAY; FLUSH PRIVILEGES")
	s.check("SELECT 1", "1")
	for user, password := range map[string]string{"root": testmysql.Password, "app": testmysql.AppPassword} {
		if err := s.answers(user, password); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// A server that somebody has take no writes keeps its passwords, and says so.
func TestRotationWithoutWrites(t *testing.T) {
	s := start(t)
	s.SQL("SET GLOBAL super_read_only = ON")
	s.SetPassword("app", "another-password")
	if err := s.Server.Server.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "super-read-only") {
		t.Errorf("got %v", err)
	}
	s.SQL("SET GLOBAL read_only = OFF")
	if err := s.Server.Server.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.answers("app", "another-password"); err != nil {
		t.Error(err)
	}
}

// A dump whose pod is gone may go on in the server for minutes, with the number that the next one has in its own pod.
func TestMomentOfADumpAfterOneThatIsCutOff(t *testing.T) {
	s := start(t, "gtid_mode = ON", "enforce_gtid_consistency = ON", "log_bin = binlog")
	s.SQL("CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB); INSERT INTO app.t (b) VALUES " +
		"(REPEAT('x', 16000000))")
	cmd := exec.Command(filepath.Join(s.Bin, "mysqldump"), "--defaults-file="+filepath.Join(s.Server.Server.Run,
		server.ClientFile), "--single-transaction", "--set-gtid-purged=OFF", "app")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}()
	s.Until("it reads", func(context.Context) error {
		return wantSQL(s, "SELECT COUNT(*) FROM information_schema.INNODB_TRX", "1")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = s.driver.At(ctx, func(seen mysql.Seen) error { return seen(cmd.Process.Pid, nil) },
		func(mysql.Moment) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a dump of before is taken for this one: %v", err)
	}
}

// A start that is cut off leaves nothing that the next one takes for data.
func TestStartThatWasCutOff(t *testing.T) {
	s := testmysql.New(t)
	fresh := filepath.Join(s.Server.Dir, "mysql.new")
	if err := os.MkdirAll(filepath.Join(fresh, "half"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Start()
	if _, err := os.Stat(filepath.Join(s.Server.Dir, "mysql", "half")); err == nil {
		t.Error("what was there is among the data")
	}
}

func TestTLS(t *testing.T) {
	authority, dir := testpki.New(t), t.TempDir()
	ca, certificate, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue := func() {
		cert, private := authority.Issue(t, testpki.Pod("mysql-0", "shop"))
		for path, text := range map[string][]byte{ca: authority.PEM(), certificate: cert, key: private} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	issue()
	s := start(t, "require_secure_transport = ON", "ssl_ca = "+ca, "ssl_cert = "+certificate, "ssl_key = "+key,
		"admin_ssl_ca = "+ca, "admin_ssl_cert = "+certificate, "admin_ssl_key = "+key)
	ask := func(ca string) error {
		_, err := s.Server.Driver(ca).Content(t.Context())
		return err
	}
	if err := ask(ca); err != nil {
		t.Error(err)
	}
	if err := ask(""); err == nil || !strings.Contains(err.Error(), "require_secure_transport") {
		t.Errorf("somebody without TLS is let in: %v", err)
	}
	authority = testpki.New(t)
	issue()
	if err := ask(ca); err == nil {
		t.Error("the renewed certificate is there before the reload")
	}
	s.SQL("ALTER INSTANCE RELOAD TLS; ALTER INSTANCE RELOAD TLS FOR CHANNEL mysql_admin")
	if err := ask(ca); err != nil {
		t.Error(err)
	}
}

func TestDumpAndLoad(t *testing.T) {
	s := start(t)
	s.SQL("CREATE DATABASE `sh``op`; CREATE TABLE `sh``op`.t (id INT PRIMARY KEY, b BLOB); INSERT INTO `sh``op`.t " +
		"VALUES (1, x'00ff0a27'); CREATE VIEW app.v AS SELECT * FROM `sh``op`.t")
	s.SQL("CREATE PROCEDURE app.p() SELECT 1; CREATE EVENT app.e ON SCHEDULE EVERY 1 YEAR DO SELECT 1; CREATE TABLE " +
		"app.m (id INT) ENGINE = MyISAM")
	s.SQL("CREATE ROLE reader; GRANT SELECT ON app.* TO reader; CREATE USER u IDENTIFIED BY 'u' DEFAULT ROLE reader; " +
		"GRANT reader TO u; ALTER USER u DEFAULT ROLE reader")
	// It may do what later servers call otherwise.
	s.SQL("CREATE USER o IDENTIFIED BY 'o'; GRANT ALL ON *.* TO o WITH GRANT OPTION")
	const granted = "SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = %s AND IS_GRANTABLE = 'YES'"
	ofO := fmt.Sprintf(granted, "\"'o'@'%'\"")
	before := s.SQL(ofO)
	var dumped bytes.Buffer
	source := &server.Source{Program: filepath.Join(s.Bin, "mysqldump"),
		Options: mysql.Options{Address: s.Address, Username: "root",
			Password: func() (string, error) { return testmysql.Password, nil }}}
	facts, err := source.Dump(t.Context(), &dumped)
	if err != nil || facts.Databases != 2 || facts.Accounts != 4 || facts.NonTransactional != 1 {
		t.Fatalf("got %+v, %v", facts, err)
	}
	restored := testmysql.New(t)
	target := &server.Target{Program: restored.Server.Program, Client: filepath.Join(s.Bin, "mysql"),
		Dir: restored.Server.Dir, Run: restored.Server.Run}
	if err := target.Load(t.Context(), bytes.NewReader(dumped.Bytes())); err != nil {
		t.Fatal(err)
	}
	restored.Start()
	r := &started{restored, restored.Driver("")}
	r.check("SELECT HEX(b) FROM app.v", "00FF0A27")
	r.check("SELECT GROUP_CONCAT(ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'app'", "p")
	r.check("SELECT GROUP_CONCAT(EVENT_NAME) FROM information_schema.EVENTS", "e")
	if err := r.answers("u", "u"); err != nil {
		t.Error(err)
	}
	r.check(ofO, before)
	if _, err := r.As("u", "u", r.Address, "").Content(t.Context()); err != nil {
		t.Error(err)
	}
	if tables, err := r.driver.Check(t.Context()); err != nil || tables < 30 {
		t.Errorf("%d tables, %v", tables, err)
	}
	for want, text := range map[string]string{
		"is incomplete":    strings.TrimSuffix(dumped.String(), "-- zeroinfra dump is whole\n"),
		"no dump of MySQL": "SELECT 1;\n"} {
		target.Dir = t.TempDir()
		if err := target.Load(t.Context(), strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}

func TestForward(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slow.log")
	ctx, cancel := context.WithCancel(t.Context())
	var got bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- server.Forward(ctx, path, &got) }()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1<<20) + "\n"
	for range 9 {
		if _, err := file.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(2 * time.Minute)
	for size := int64(1); size > 0; {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size = info.Size()
		select {
		case <-deadline:
			t.Fatalf("the file still has %d bytes", size)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if _, err := file.WriteString("last\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil || got.String() != strings.Repeat(line, 9)+"last\n" {
		t.Errorf("%d bytes are forwarded, %v", got.Len(), err)
	}
}
