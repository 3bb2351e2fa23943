// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver/mysql/binlog"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/testmysql"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// shelf is a server that archives as its pod does, in a folder.
type shelf struct {
	*testmysql.Server
	folder string
}

// prefix of the archive in the folder.
const shelfPrefix = "kept/db"

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{testmysql.New(t, "server_id = 1", "gtid_mode = ON", "enforce_gtid_consistency = ON", "log_bin = binlog"),
		t.TempDir()}
	config := filepath.Join(t.TempDir(), "archive.json")
	text := fmt.Sprintf(`{"place":"shop/db","archive.folder":%q,"archive.prefix":%q,"archive.timeout":"1s"}`, s.folder,
		shelfPrefix)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own := s.Server.Server
	cmd := exec.Command(os.Args[0], "mysql", "start", "--program="+own.Program, "--config="+own.Config, "--dir="+own.Dir,
		"--run="+own.Run,
		"--secrets="+own.Secrets, "--slow-log=", "--archive="+config)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.Until("it answers", func(context.Context) error {
		_, err := s.TrySQL("SELECT 1")
		return err
	})
	return s
}

// agent runs a command, and returns what it says on standard error and its exit code.
func (s *shelf) agent(in, out string, env []string, arguments ...string) (said string, code int) {
	s.Helper()
	stdin, err := os.Open(in)
	if err != nil {
		s.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer stdout.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(os.Args[0], append([]string{"mysql"}, arguments...)...)
	cmd.Env = append(append(os.Environ(), asAgent+"=1", "PATH="+s.Bin+":"+os.Getenv("PATH")), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.Fatal(err)
	}
	return strings.TrimSpace(stderr.String()), cmd.ProcessState.ExitCode()
}

// archivedUntil waits until a log is archived that was closed after a time.
func (s *shelf) archivedUntil(at time.Time) {
	s.Helper()
	s.Until("the log is archived", func(context.Context) error {
		entries, err := filepath.Glob(filepath.Join(s.folder, shelfPrefix, "*", "logs", "*", "*.json"))
		for _, path := range entries {
			text, err := os.ReadFile(path)
			var entry binlog.Entry
			if err == nil && json.Unmarshal(text, &entry) == nil && entry.Closed.After(at) {
				return nil
			}
		}
		state, _ := os.ReadFile(filepath.Join(s.Server.Server.Run, server.ArchiveFile))
		return errors.Join(fmt.Errorf("there are %v, and it says %q", entries, state), err)
	})
}

// restore loads a dump at a time.
func (s *shelf) restore(dump string, facts map[string]string, at time.Time) (r *testmysql.Server, said string,
	code int) {
	s.Helper()
	r = testmysql.New(s.T, "server_id = 2", "gtid_mode = ON", "enforce_gtid_consistency = ON", "log_bin = binlog")
	target, err := json.Marshal(mover.Target{Time: at, Place: "shop/db", Facts: facts,
		Parameters: map[string]string{"archive.folder": s.folder, "archive.prefix": shelfPrefix}})
	if err != nil {
		s.Fatal(err)
	}
	said, code = s.agent(dump, os.DevNull, []string{mover.TargetEnv + "=" + string(target)}, "load", "--dir="+r.Server.Dir,
		"--run="+r.Server.Run)
	return r, said, code
}

// What is started, dumped and loaded as pods and movers do it leads to a point in time.
func TestMySQLToAPointInTime(t *testing.T) {
	s := newShelf(t)
	s.SQL("CREATE TABLE app.rows_ (n INT PRIMARY KEY); INSERT INTO app.rows_ VALUES (1)")
	s.archivedUntil(time.Time{})
	s.Until("the probe is told that it archives", func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(s.Server.Server.Run, server.ArchiveFile))
		if err == nil && string(text) != "archive=Archiving\narchive_reason=\narchive_level=\n" {
			err = fmt.Errorf("it is told %q", text)
		}
		return err
	})
	dump, facts := filepath.Join(t.TempDir(), "dump"), filepath.Join(t.TempDir(), "facts")
	if said, code := s.agent(os.DevNull, dump, []string{"MYSQL_PWD=" + testmysql.Password}, "dump", "--address="+s.Address,
		"--facts="+facts); code != 0 {
		t.Fatalf("the dump ends with %d: %s", code, said)
	}
	text, err := os.ReadFile(facts)
	_, id, found := strings.Cut(strings.TrimSpace(string(text)), "archive=")
	if err != nil || !found || !binlog.IsID(id) {
		t.Fatalf("the facts are %q, %v", text, err)
	}
	s.SQL("INSERT INTO app.rows_ VALUES (2)")
	at, err := time.Parse("2006-01-02 15:04:05.000000", s.SQL("SELECT UTC_TIMESTAMP(6)"))
	if err != nil {
		t.Fatal(err)
	}
	s.SQL("INSERT INTO app.rows_ VALUES (3)")
	s.archivedUntil(at)

	known := map[string]string{"archive": id}
	r, said, code := s.restore(dump, known, at)
	if code != 0 {
		t.Fatalf("the restore ends with %d: %s", code, said)
	}
	r.Start()
	if got := r.SQL("SELECT GROUP_CONCAT(n ORDER BY n) FROM app.rows_"); got != "1,2" {
		t.Errorf("there are the rows %s", got)
	}
	if there, err := filepath.Glob(filepath.Join(r.Server.Dir, "replay*")); err != nil || len(there) > 0 {
		t.Errorf("there is %v, %v", there, err)
	}
	for want, target := range map[string]struct {
		facts map[string]string
		at    time.Time
	}{
		"what is archived goes up to":           {known, time.Now().Add(time.Hour)},
		"no log can be replayed on this backup": {nil, at},
	} {
		_, said, code := s.restore(dump, target.facts, target.at)
		if last := said[strings.LastIndexByte(said, '\n')+1:]; code != mover.ExitOutOfRange || !strings.Contains(last, want) {
			t.Errorf("it ends with %d: %q, want %q", code, last, want)
		}
	}
}
