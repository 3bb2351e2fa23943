// SPDX-License-Identifier: Apache-2.0

//go:build processes

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/redis"
	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpod"
)

// server is a real Redis whose configuration includes what the driver keeps.
type server struct {
	*testing.T
	conf, port, users string
	*redis.Driver
}

func newServer(t *testing.T) *server {
	t.Helper()
	for _, tool := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: install Debian's package redis-server", err)
		}
	}
	address := testnet.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	s := &server{T: t, conf: filepath.Join(dir, "redis.conf"), port: port,
		users: filepath.Join(dir, "users", "entities.conf")}
	conf := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsave \"\"\nrequirepass hunter2\ninclude %s/users/*.conf\n", port,
		dir, dir)
	if err := os.WriteFile(s.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Driver = redis.New(redis.Options{Address: address, Password: func() (string, error) { return "hunter2", nil },
		UsersFile: s.users})
	return s
}

// start returns what kills the server.
func (s *server) start() (kill func()) {
	s.Helper()
	cmd := exec.Command("redis-server", s.conf)
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
		}
	}
	s.Cleanup(kill)
	testpod.Eventually(s.T, func() error {
		if said := s.cli("default", "hunter2", "PING"); said != "PONG" {
			return fmt.Errorf("redis-server says %q", said)
		}
		return nil
	})
	return kill
}

func (s *server) cli(user, password string, command ...string) string {
	s.Helper()
	cmd := exec.Command("redis-cli", append(
		[]string{"-p", s.port, "--user", user, "--pass", password, "--no-auth-warning"}, command...)...)
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out))
}

func (s *server) change(changes ...driver.Change) driver.Problems {
	s.Helper()
	problems, err := s.Change(s.Context(), redis.KindUser, changes)
	if err != nil {
		s.Fatal(err)
	}
	return problems
}

func (s *server) observe(queries ...driver.Query) map[string]driver.State {
	s.Helper()
	states, err := s.Observe(s.Context(), redis.KindUser, queries)
	if err != nil {
		s.Fatal(err)
	}
	all := map[string]driver.State{}
	for _, state := range states {
		all[state.Name] = state
	}
	return all
}

func user(name, password string, intent driver.Intent, parameters map[string]string) driver.Change {
	return driver.Change{Query: driver.Query{Name: name, Password: password}, Intent: intent, Parameters: parameters}
}

var reader = map[string]string{"enabled": "yes", "keys": "~app:* %R~shared:*", "channels": "&news.*",
	"commands": "+@read -keys"}

func TestUserIsWhatItsParametersSay(t *testing.T) {
	s := newServer(t)
	s.start()
	if problems := s.change(user("alice", "secret1", driver.Create, reader)); len(problems) > 0 {
		t.Fatal(problems)
	}
	got := s.observe(driver.Query{Name: "alice", Password: "secret1"}, driver.Query{Name: "bob"})
	if len(got) != 1 || got["alice"].Password != driver.SamePassword {
		t.Fatalf("got %+v", got)
	}
	for name, want := range reader {
		if got["alice"].Parameters[name] != want {
			t.Errorf("%s reads back as %q, want %q", name, got["alice"].Parameters[name], want)
		}
	}
	for command, want := range map[string]string{"GET app:x": "", "GET other": "NOPERM", "SET app:x 1": "NOPERM",
		"KEYS *": "NOPERM"} {
		if said := s.cli("alice", "secret1", strings.Fields(command)...); want == "" && said != "" ||
			!strings.Contains(said, want) {
			t.Errorf("%s says %q, want %q", command, said, want)
		}
	}
	// What is changed replaces what was there; the password too.
	s.change(user("alice", "secret2", driver.Update, map[string]string{"enabled": "yes", "commands": "+ping"}))
	if s.cli("alice", "secret2", "PING") != "PONG" || !strings.Contains(s.cli("alice", "secret1", "PING"), "WRONGPASS") {
		t.Error("the password was not rotated")
	}
	if got := s.observe(driver.Query{Name: "alice", Password: "secret1"})["alice"]; got.Password != driver.OtherPassword ||
		got.Parameters["keys"] != "" {
		t.Errorf("got %+v", got)
	}
	s.change(user("alice", "", driver.Delete, nil), user("nobody", "", driver.Delete, nil))
	if got := s.observe(driver.Query{Name: "alice"}); len(got) > 0 {
		t.Errorf("it is still there: %+v", got)
	}
}

func TestChangesByHandAreSeen(t *testing.T) {
	s := newServer(t)
	s.start()
	query := driver.Query{Name: "alice", Password: "secret"}
	for what, rule := range map[string]string{
		"no password": "nopass", "another password": ">guess", "a key": "~*", "a channel": "&*", "a command": "+set",
		"turned off": "off", "a selector": "(+set ~x)",
	} {
		s.change(user("alice", "secret", driver.Update, reader))
		before := s.observe(query)["alice"]
		s.cli("default", "hunter2", append([]string{"ACL", "SETUSER", "alice"}, rule)...)
		after := s.observe(query)["alice"]
		if fmt.Sprint(before) == fmt.Sprint(after) {
			t.Errorf("%s is not seen: %+v", what, after)
		}
	}
}

func TestUsersSurviveAKill(t *testing.T) {
	s := newServer(t)
	kill := s.start()
	s.change(user("alice", "secret", driver.Create, reader),
		user("bob", "secret", driver.Create, map[string]string{"enabled": "yes", "commands": "+ping"}))
	s.cli("default", "hunter2", "ACL", "SETUSER", "mallory", "on", "nopass", "+@all", "~*")
	s.change(user("bob", "", driver.Delete, nil))
	before := s.observe(driver.Query{Name: "alice", Password: "secret"})["alice"]
	kill()
	s.start()
	after := s.observe(driver.Query{Name: "alice", Password: "secret"}, driver.Query{Name: "bob"},
		driver.Query{Name: "mallory"})
	if len(after) != 1 || fmt.Sprint(after["alice"]) != fmt.Sprint(before) {
		t.Errorf("got %+v, want only alice as before: %+v", after, before)
	}
	data, err := os.ReadFile(s.users)
	if err != nil || strings.Contains(string(data), "secret") {
		t.Errorf("the file says %q, %v", data, err)
	}
}

// Whatever its commands say, a user cannot reach past the engine; what somebody gives it by hand is seen.
func TestNobodyReachesPastTheEngine(t *testing.T) {
	s := newServer(t)
	kill := s.start()
	query := driver.Query{Name: "alice", Password: "secret"}
	for _, commands := range []string{"+@all", "+@admin +@dangerous", "+acl +config +replicaof +slaveof +failover " +
		"+module +debug +shutdown +save +bgsave +bgrewriteaof +sync +psync +replconf +cluster",
		"+acl|setuser +config|set +config|get +module|load +cluster|reset +cluster|setslot"} {
		s.change(user("alice", "secret", driver.Update,
			map[string]string{"enabled": "yes", "keys": "~*", "commands": commands}))
		for _, command := range []string{"ACL SETUSER alice nopass", "ACL WHOAMI", "CONFIG GET requirepass",
			"CONFIG SET maxmemory 1", "REPLICAOF no one", "SLAVEOF no one", "FAILOVER ABORT",
			"MODULE LIST", "MODULE LOAD /x", "DEBUG SLEEP 0", "SAVE", "BGSAVE", "BGREWRITEAOF", "SHUTDOWN NOSAVE", "SYNC",
			"PSYNC ? -1", "REPLCONF ACK 1",
			"CLUSTER RESET HARD", "CLUSTER REPLICATE x", "CLUSTER FAILOVER TAKEOVER", "CLUSTER FORGET x",
			"CLUSTER MEET 10.0.0.1 6379", "CLUSTER SETSLOT 1 STABLE", "CLUSTER ADDSLOTS 1",
			"CLUSTER ADDSLOTSRANGE 1 2", "CLUSTER DELSLOTS 1", "CLUSTER DELSLOTSRANGE 1 2", "CLUSTER FLUSHSLOTS",
			"CLUSTER BUMPEPOCH", "CLUSTER SET-CONFIG-EPOCH 1", "CLUSTER SAVECONFIG"} {
			said := s.cli("default", "hunter2", append([]string{"ACL", "DRYRUN", "alice"}, strings.Fields(command)...)...)
			if !strings.Contains(said, "has no permissions to run") {
				t.Errorf("with %s, %s says %q", commands, command, said)
			}
		}
		before := s.observe(query)["alice"]
		s.cli("default", "hunter2", "ACL", "SETUSER", "alice", "+config")
		if after := s.observe(query)["alice"]; fmt.Sprint(before) == fmt.Sprint(after) {
			t.Errorf("with %s, a command that was given by hand is not seen: %+v", commands, after)
		}
	}
	kill()
	s.start()
	if said := s.cli("alice", "secret", "CONFIG", "GET", "requirepass"); !strings.Contains(said, "NOPERM") {
		t.Errorf("after a restart: %s", said)
	}
}

// Clients of a cluster ask it where slots are, and read from replicas.
func TestClientsOfAClusterMayAskIt(t *testing.T) {
	s := newServer(t)
	s.start()
	for _, commands := range []string{"+@all", "+@read +@write +cluster +readonly +readwrite +asking"} {
		s.change(user("alice", "secret", driver.Update,
			map[string]string{"enabled": "yes", "keys": "~*", "commands": commands}))
		for _, command := range []string{"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO",
			"CLUSTER KEYSLOT a", "CLUSTER MYID", "CLUSTER COUNTKEYSINSLOT 1", "CLUSTER GETKEYSINSLOT 1 1",
			"CLUSTER REPLICAS x", "CLUSTER LINKS", "READONLY", "READWRITE", "ASKING"} {
			if said := s.cli("default", "hunter2",
				append([]string{"ACL", "DRYRUN", "alice"}, strings.Fields(command)...)...); said != "OK" {
				t.Errorf("with %s, %s says %q", commands, command, said)
			}
		}
	}
}

// Users that an earlier version made may do more than they should: that is told, so that they are made anew, and the
// file does not give it to them again.
func TestUsersOfAnEarlierVersionAreMadeAnew(t *testing.T) {
	s := newServer(t)
	kill := s.start()
	s.change(user("alice", "secret", driver.Create,
		map[string]string{"enabled": "yes", "keys": "~*", "commands": "+@all"}))
	data, err := os.ReadFile(s.users)
	if err != nil {
		t.Fatal(err)
	}
	earlier, _, found := strings.Cut(string(data), " -cluster|")
	if !found {
		t.Fatalf("the file says %q", data)
	}
	if err := os.WriteFile(s.users, []byte(earlier+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kill()
	s.start()
	reset := func() string { return s.cli("default", "hunter2", "ACL", "DRYRUN", "alice", "CLUSTER", "RESET") }
	query := driver.Query{Name: "alice", Password: "secret"}
	if said, got := reset(), s.observe(query)["alice"]; said != "OK" ||
		!strings.Contains(got.Parameters["commands"], "not kept") {
		t.Errorf("it says %q and reads back as %+v", said, got)
	}
	s.change(user("alice", "secret", driver.Update,
		map[string]string{"enabled": "yes", "keys": "~*", "commands": "+@all"}))
	if said, got := reset(), s.observe(query)["alice"]; said == "OK" ||
		strings.Contains(got.Parameters["commands"], "not kept") {
		t.Errorf("it says %q and reads back as %+v", said, got)
	}
}

// Until it is known what came of a change, the file does not have its user, and that is told.
func TestFileIsNeverBehind(t *testing.T) {
	s := newServer(t)
	s.start()
	for _, name := range []string{"alice", "bob", "carol"} {
		s.change(user(name, "secret", driver.Create, reader))
	}
	queries := []driver.Query{{Name: "alice", Password: "secret"}, {Name: "bob", Password: "secret"},
		{Name: "carol", Password: "secret"}}
	s.cli("default", "hunter2", "CLIENT", "PAUSE", "2000", "ALL")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Change(ctx, redis.KindUser,
			[]driver.Change{user("alice", "", driver.Delete, nil),
				user("bob", "secret", driver.Update, map[string]string{"enabled": "no"})})
		ended <- err
	}()
	file := func() string {
		data, err := os.ReadFile(s.users)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	testpod.Eventually(t, func() error {
		if said := file(); strings.Contains(said, "user alice") || strings.Contains(said, "user bob") {
			return fmt.Errorf("the file says %q", said)
		}
		return nil
	})
	cancel()
	if err := <-ended; err == nil {
		t.Error("a call that was cut off succeeds")
	}
	if !strings.HasPrefix(file(), "user carol ") {
		t.Errorf("the file says %q", file())
	}
	for name, state := range s.observe(queries...) {
		if told := strings.Contains(state.Parameters["commands"], "not kept"); told != (name != "carol") {
			t.Errorf("%s reads back as %+v", name, state)
		}
	}
	// The next call puts it right; one that is refused leaves what was there.
	s.change(user("alice", "", driver.Delete, nil), user("bob", "secret", driver.Update, reader))
	s.change(user("carol", "secret", driver.Update, map[string]string{"commands": "+nonsense"}))
	got := s.observe(queries...)
	if len(got) != 2 || strings.Contains(fmt.Sprint(got), "not kept") || strings.Count(file(), "\n") != 2 {
		t.Errorf("got %+v, the file says %q", got, file())
	}
	// A password that the file has and Redis has not is told, too.
	if err := os.WriteFile(s.users, []byte(strings.ReplaceAll(file(), "#", "#0")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.observe(queries...); strings.Count(fmt.Sprint(got), "not kept") != 2 {
		t.Errorf("got %+v", got)
	}
}

// What the process does not have is kept no longer, whoever it was kept for.
func TestOnlyWhoIsThereIsKept(t *testing.T) {
	s := newServer(t)
	s.start()
	s.change(user("alice", "secret", driver.Create, reader), user("bob", "secret", driver.Create, reader))
	s.cli("default", "hunter2", "ACL", "DELUSER", "alice")
	s.change(user("carol", "secret", driver.Create, reader))
	data, err := os.ReadFile(s.users)
	if err != nil || strings.Contains(string(data), "alice") || strings.Count(string(data), "\n") != 2 {
		t.Errorf("the file says %q, %v", data, err)
	}
}

func TestRefusalsAreOfOneUser(t *testing.T) {
	s := newServer(t)
	s.start()
	problems := s.change(
		user("default", "x", driver.Update, nil), user("a b", "x", driver.Create, nil),
		user("quoted", "x", driver.Create, map[string]string{"keys": `~"`}),
		user("command", "x", driver.Create, map[string]string{"commands": "+nonsense"}),
		user("rule", "x", driver.Create, map[string]string{"keys": "allkeys"}),
		user("word", "x", driver.Create, map[string]string{"selectors": "1"}), user("fine", "x", driver.Create, reader),
	)
	for name, says := range map[string]string{
		"default": "the instance's own", "a b": "is no name of a user", "quoted": "has a quote", "command": "Unknown command",
		"rule": "must begin with one of ~%", "word": `"selectors" is not known`,
	} {
		if !strings.Contains(problems[name], says) {
			t.Errorf("%s: got %q, want %q", name, problems[name], says)
		}
	}
	if len(problems) != 6 || s.cli("default", "hunter2", "PING") != "PONG" {
		t.Errorf("got %v", problems)
	}
	// What was refused is not kept, or Redis would not start any more.
	data, err := os.ReadFile(s.users)
	if err != nil || strings.Count(string(data), "\n") != 1 || !strings.HasPrefix(string(data), "user fine ") {
		t.Errorf("the file says %q, %v", data, err)
	}
}

func TestManyInOneCall(t *testing.T) {
	s := newServer(t)
	s.start()
	var changes []driver.Change
	var queries []driver.Query
	for i := range 1000 {
		changes = append(changes, user(fmt.Sprintf("user-%d", i), "secret", driver.Create, reader))
		queries = append(queries, changes[i].Query)
	}
	begin := time.Now()
	if problems := s.change(changes...); len(problems) > 0 {
		t.Fatal(problems)
	}
	changed := time.Since(begin)
	if got := s.observe(queries...); len(got) != 1000 {
		t.Errorf("%d are there", len(got))
	}
	t.Logf("1000 users: changed in %v, observed in %v", changed, time.Since(begin)-changed)
}

func TestDeadlineAndAbsence(t *testing.T) {
	s := newServer(t)
	if _, err := s.Observe(t.Context(), redis.KindUser, []driver.Query{{Name: "a"}}); err == nil {
		t.Error("a server that is not there answers")
	}
	kill := s.start()
	defer kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	out, err := exec.Command("redis-cli", "-p", s.port, "-a", "hunter2", "--no-auth-warning", "CLIENT", "PAUSE", "20000",
		"ALL").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	begin := time.Now()
	if _, err := s.Observe(ctx, redis.KindUser, []driver.Query{{Name: "a"}}); err == nil ||
		time.Since(begin) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}

// TestOutOfConnections: a server that has as many clients as it may have refuses no user, and is told apart from one
// that does not answer.
func TestOutOfConnections(t *testing.T) {
	s := newServer(t)
	kill := s.start()
	if said := s.cli("default", "hunter2", "CONFIG", "SET", "maxclients", "10"); said != "OK" {
		t.Fatal(said)
	}
	for range 20 {
		connection, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
	calls := map[string]func() error{
		"observe": func() error {
			_, err := s.Observe(t.Context(), redis.KindUser, []driver.Query{{Name: "app"}})
			return err
		},
		"change": func() error {
			problems, err := s.Change(t.Context(), redis.KindUser, []driver.Change{user("app", "secret", driver.Create, reader)})
			if len(problems) > 0 {
				t.Errorf("it is said to be refused: %v", problems)
			}
			return err
		},
		"query": func() error {
			_, err := s.Query(t.Context(), driver.Statement{Text: "INFO memory"})
			return err
		},
	}
	for name, call := range calls {
		full := (*driver.OutOfConnections)(nil)
		if err := call(); !errors.As(err, &full) || !strings.Contains(err.Error(), "raise the limit") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	kill()
	for name, call := range calls {
		full := (*driver.OutOfConnections)(nil)
		if err := call(); err == nil || errors.As(err, &full) {
			t.Errorf("%s, without a server: got %v", name, err)
		}
	}
}
