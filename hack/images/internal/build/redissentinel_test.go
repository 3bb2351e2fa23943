// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// electedUser is who runs them in a pod.
	electedUser = 999
	// electedIn is how long a step may take on a busy machine: a Sentinel asks servers every ten seconds.
	electedIn = time.Minute
	// electedServers and electedSentinels are the ends of their names.
	electedServers, electedSentinels = ".db-redis-headless.test", ".db-sentinel-headless.test"
)

// mounted is what a pod mounts of one credential; without also, its pod was made before there was such a thing.
type mounted struct{ password, also string }

// state of the Secrets of both credentials.
type state struct{ clients, internal mounted }

// member is a process of an instance whose primary Sentinels elect, with an address of its own.
type member struct {
	name, address string
	sentinel      bool
	// port of the process.
	port string
	// runsWith is the state that its process was last started with, and environ what it has in its environment.
	runsWith state
	environ  []string
	cmd      *exec.Cmd
}

// pod is the first label of the name.
func (m *member) pod() string { return strings.Split(m.name, ".")[0] }

// account of who may ask the process all that is asked here.
func (m *member) account() (user, password string) {
	if m.sentinel {
		return "sentinel", m.runsWith.internal.password
	}
	return "default", m.runsWith.clients.password
}

// elected is such an instance in an unpacked image, on the loopback.
type elected struct {
	*testing.T
	root string
	// server and sentinel are the ports.
	server, sentinel string
	// members are two servers and three Sentinels.
	members []*member
}

// TestRedisSentinelTakesOverPasswords has servers and Sentinels of the image take over both of their passwords in three
// rounds, one process after the other: at each moment all of them let each other in, also one that dies while its pod
// mounts the next state already. The one that writes hands over each time, and in the end nobody accepts what was there
// before.
func TestRedisSentinelTakesOverPasswords(t *testing.T) {
	for _, version := range []string{"7.0", "8.0"} {
		t.Run(version, func(t *testing.T) {
			root := unpacked(t, "zeroinfra/redis:"+version)
			if os.Geteuid() != 0 {
				return
			}
			// Most of the time they wait for what Sentinels do every ten seconds.
			t.Parallel()
			e := newElected(t, root)
			old := state{mounted{"clients-1", "clients-1"}, mounted{"internal-1", "internal-1"}}
			e.begin(old)
			if out := e.cli(e.members[0], "default", "clients-1", "SET", "kept", "value"); out != "OK" {
				t.Fatalf("a write is answered with %q", out)
			}
			for _, next := range []state{
				{mounted{"clients-1", "clients-2"}, mounted{"internal-1", "internal-2"}},
				{mounted{"clients-2", "clients-1"}, mounted{"internal-2", "internal-1"}},
				{mounted{"clients-2", "clients-2"}, mounted{"internal-2", "internal-2"}},
			} {
				e.takesUp(next)
			}
			for _, m := range e.members {
				for user, password := range map[string]string{"default": "clients-1", "sentinel": "internal-1"} {
					if out := e.cli(m, user, password, "PING"); !strings.Contains(out, "WRONGPASS") {
						t.Errorf("%s answers to the former password of %s: %q", m.pod(), user, out)
					}
				}
			}
			for _, m := range e.servers() {
				if out := e.cli(m, "default", "clients-2", "GET", "kept"); out != "value" {
					t.Errorf("%s has lost a write: %q", m.pod(), out)
				}
			}
		})
	}
}

// TestRedisSentinelStartsWithoutOther has pods that mount no other password, as those do that were made before, accept
// just the one that they have.
func TestRedisSentinelStartsWithoutOther(t *testing.T) {
	root := unpacked(t, "zeroinfra/redis:8.0")
	if os.Geteuid() != 0 {
		return
	}
	e := newElected(t, root)
	e.begin(state{mounted{password: "clients"}, mounted{password: "internal"}})
	for _, m := range e.members {
		for user, password := range map[string]string{"default": "clients", "sentinel": "internal"} {
			if out := e.cli(m, user, password, "PING"); out != "PONG" {
				t.Errorf("%s answers to the password of %s: %q", m.pod(), user, out)
			}
			if out := e.cli(m, user, "", "ACL", "WHOAMI"); !strings.Contains(out, "WRONGPASS") {
				t.Errorf("%s answers to %s without a password: %q", m.pod(), user, out)
			}
		}
	}
}

// newElected readies two servers and three Sentinels, of which none runs yet.
func newElected(t *testing.T, root string) *elected {
	t.Helper()
	e := &elected{T: t, root: root, server: freePort(t), sentinel: freePort(t)}
	hosts := "127.0.0.1 localhost\n"
	for n := range 5 {
		server, sentinel := fmt.Sprintf("db-redis-main-%d%s", n, electedServers),
			fmt.Sprintf("db-sentinel-main-%d%s", n, electedSentinels)
		hosts += fmt.Sprintf("127.0.77.%d %s\n127.0.77.%d %s\n", 10+n, server, 20+n, sentinel)
		if n < 2 {
			e.members = append(e.members, &member{name: server, address: fmt.Sprintf("127.0.77.%d", 10+n), port: e.server})
		}
	}
	for n := range 3 {
		e.members = append(e.members, &member{
			name: fmt.Sprintf("db-sentinel-main-%d%s", n, electedSentinels), address: fmt.Sprintf("127.0.77.%d", 20+n),
			port: e.sentinel, sentinel: true,
		})
	}
	e.write("etc/hosts", hosts)
	e.write("etc/nsswitch.conf", "hosts: files\n")
	e.write("dev/null", "")
	if err := errors.Join(os.Chmod(filepath.Join(root, "dev/null"), 0o666),
		os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(root, "usr/local/bin/redis-elected"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range e.members {
		// In a pod each has a host of its own; here each has an address.
		places := "config=/zeroinfra/config secrets=/zeroinfra/secrets data=/data port=6379 sentinelPort=26379"
		script := strings.Replace(string(program), places,
			fmt.Sprintf("config=/m/%[1]s/config secrets=/m/%[1]s/secrets data=/m/%[1]s/data port=%s sentinelPort=%s", m.pod(),
				e.server, e.sentinel), 1)
		if script == string(program) {
			t.Fatalf("the script does not say %q", places)
		}
		e.write("m/"+m.pod()+"/redis-elected", strings.ReplaceAll(script, "127.0.0.1", m.address))
		for _, folder := range []string{"config", "data"} {
			at := filepath.Join(root, "m", m.pod(), folder)
			if err := errors.Join(os.MkdirAll(at, 0o755), os.Chown(at, electedUser, electedUser)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, m := range e.members {
			e.ends(m, syscall.SIGKILL)
		}
		if t.Failed() {
			e.tellLogs()
		}
	})
	return e
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (e *elected) write(path, content string) {
	e.Helper()
	at := filepath.Join(e.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
		e.Fatal(err)
	}
}

func (e *elected) servers() []*member   { return e.members[:2] }
func (e *elected) sentinels() []*member { return e.members[2:] }

// begin starts all with a state, and waits until they are whole.
func (e *elected) begin(s state) {
	e.Helper()
	for _, m := range append(e.sentinels(), e.servers()...) {
		e.starts(m, s)
	}
	e.whole()
}

// takesUp has all processes restart with another state, one after the other, the one that writes last, once it has
// handed over.
func (e *elected) takesUp(s state) {
	e.Helper()
	primary, to := e.primary(), e.servers()[0]
	if to == primary {
		to = e.servers()[1]
	}
	for _, m := range []*member{to, e.sentinels()[0]} {
		e.ends(m, syscall.SIGKILL)
		e.mounts(m, s)
		e.runs(m)
		e.whole()
	}
	for _, m := range append(e.sentinels(), to) {
		e.restarts(m, s)
	}
	// An action has the passwords that the process was started with.
	if out, err := e.command(primary, primary.environ, "handover", to.name).CombinedOutput(); err != nil {
		e.Fatalf("%s does not hand over: %v: %s", primary.pod(), err, out)
	}
	e.whole()
	if now := e.primary(); now != to {
		e.Fatalf("%s is the primary, and %s was to be", now.pod(), to.pod())
	}
	// Asked once more, it deposes nobody.
	out, err := e.command(primary, primary.environ, "handover", to.name).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is not the primary any more: nothing is handed over") {
		e.Errorf("%s hands over what it has not: %v: %s", primary.pod(), err, out)
	}
	e.restarts(primary, s)
}

func (e *elected) restarts(m *member, s state) {
	e.Helper()
	e.ends(m, syscall.SIGTERM)
	e.starts(m, s)
	e.whole()
	for _, accepts := range []struct {
		user string
		mounted
	}{{"default", s.clients}, {"sentinel", s.internal}} {
		for _, password := range []string{accepts.password, accepts.also} {
			if out := e.cli(m, accepts.user, password, "PING"); out != "PONG" {
				e.Errorf("%s answers to password %q of %s: %q", m.pod(), password, accepts.user, out)
			}
		}
	}
}

// mounts is what the kubelet does with a state of the Secrets.
func (e *elected) mounts(m *member, s state) {
	e.Helper()
	for credential, has := range map[string]mounted{"default": s.clients, "sentinel": s.internal} {
		folder := "m/" + m.pod() + "/secrets/" + credential
		e.write(folder+"/password", has.password)
		if has.also != "" {
			e.write(folder+"/also", has.also)
		}
	}
}

// starts a process with a state of the Secrets.
func (e *elected) starts(m *member, s state) {
	e.Helper()
	e.mounts(m, s)
	m.runsWith = s
	common := fmt.Sprintf("bind %s\nprotected-mode no\nport %s\ndir /m/%s/data\nlogfile \"\"\n", m.address, m.port,
		m.pod())
	if m.sentinel {
		e.write("m/"+m.pod()+"/config/sentinel.conf", common+fmt.Sprintf(
			"sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\nsentinel announce-ip %s\nsentinel announce-port "+
				"%s\n", m.name, m.port))
		e.write("m/"+m.pod()+"/config/monitor.conf",
			"sentinel down-after-milliseconds mymaster 5000\nsentinel failover-timeout mymaster 10000\n")
	} else {
		e.write("m/"+m.pod()+"/config/redis.conf", common+fmt.Sprintf(
			"requirepass %s\ninclude /m/%s/config/users/*.conf\nmasteruser sentinel\nmasterauth %s\nreplica-announce-ip "+
				"%s\nappendonly yes\nrepl-diskless-sync-delay 0\n",
			s.clients.password, m.pod(), s.internal.password, m.name))
	}
	m.environ = append(e.environ(m), "SENTINEL_PASSWORD="+s.internal.password, "REDISCLI_AUTH="+s.clients.password)
	e.runs(m)
}

// runs has the process of a member run as it was last told to.
func (e *elected) runs(m *member) {
	e.Helper()
	command := "start"
	if m.sentinel {
		command = "sentinel"
	}
	m.cmd = e.command(m, m.environ, command)
	log, err := os.OpenFile(filepath.Join(e.root, "m", m.pod(), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		e.Fatal(err)
	}
	defer log.Close()
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		e.Fatal(err)
	}
}

// environ is what the plugin has in the environment of a process but for passwords.
func (e *elected) environ(m *member) []string {
	five := func(form, end string) string {
		var names []string
		for n := range 5 {
			names = append(names, fmt.Sprintf(form, n)+end)
		}
		return strings.Join(names, " ")
	}
	var peers []string
	for _, s := range e.sentinels() {
		peers = append(peers, s.name)
	}
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "SELF=" + m.name, "FIRST=" + e.members[0].name, "PRIORITY=100",
		"QUORUM=2",
		"SENTINELS=" + five("db-sentinel-main-%d", electedSentinels), "MEMBERS=" + five("db-redis-main-%d", electedServers),
		"PEERS=" + strings.Join(peers, " "),
	}
}

// command of the script of a member, in a group of its own.
func (e *elected) command(m *member, environ []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(e.Context(), "/bin/sh", append([]string{"/m/" + m.pod() + "/redis-elected"}, args...)...)
	cmd.Dir, cmd.Env = "/", environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: e.root,
		Credential: &syscall.Credential{Uid: electedUser, Gid: electedUser}, Setpgid: true}
	return cmd
}

// ends a process, and what it left behind.
func (e *elected) ends(m *member, signal syscall.Signal) {
	if m.cmd == nil || m.cmd.Process == nil {
		return
	}
	group := m.cmd.Process.Pid
	ended := make(chan error)
	go func() { ended <- m.cmd.Wait() }()
	for waits := true; waits; {
		// A server that writes its log for the first time does not end, and has to be asked again.
		_ = m.cmd.Process.Signal(signal)
		select {
		case <-ended:
			waits = false
		case <-time.After(time.Second):
		}
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	m.cmd = nil
}

// cli is what a member answers to a user.
func (e *elected) cli(m *member, user, password string, args ...string) string {
	out, err := inside(e.root, electedUser, "/usr/bin/redis-cli",
		append([]string{"-h", m.address, "-p", m.port, "--no-auth-warning", "--user", user, "--pass", password}, args...)...)
	if err != nil {
		out += err.Error()
	}
	return strings.TrimSpace(strings.ReplaceAll(out, "\r", ""))
}

// told is what a member answers to a member of its kind, by key.
func (e *elected) told(m *member, separator string, args ...string) map[string]string {
	user, password := m.account()
	words, fields := strings.Split(e.cli(m, user, password, args...), "\n"), map[string]string{}
	for i, word := range words {
		if key, value, found := strings.Cut(word, separator); separator != "\n" && found {
			fields[key] = value
		} else if separator == "\n" && i%2 == 0 && i+1 < len(words) {
			fields[word] = words[i+1]
		}
	}
	return fields
}

func (e *elected) primary() *member {
	e.Helper()
	i := slices.IndexFunc(e.servers(), func(m *member) bool {
		return e.told(m, ":", "INFO", "replication")["role"] == "master"
	})
	if i < 0 {
		e.Fatal("there is no primary")
	}
	return e.servers()[i]
}

// whole waits until each lets in all that log in at it, and they agree on the primary.
func (e *elected) whole() {
	e.Helper()
	var problem error
	for until := time.Now().Add(electedIn); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if problem = e.missing(); problem == nil {
			return
		}
	}
	e.Fatal(problem)
}

// missing says what is missing to that.
func (e *elected) missing() error {
	primary := ""
	for _, m := range e.servers() {
		now := e.told(m, ":", "INFO", "replication")
		switch {
		case now["role"] == "master" && primary == "":
			primary = m.name
		case now["role"] != "slave" || now["master_link_status"] != "up":
			return fmt.Errorf("%s is %q with the link %q", m.pod(), now["role"], now["master_link_status"])
		case now["slave_priority"] != "100":
			return fmt.Errorf("%s cannot be elected yet", m.pod())
		}
	}
	for _, m := range e.members {
		user, password := m.account()
		clients := e.cli(m, user, password, "CLIENT", "LIST")
		for _, s := range e.sentinels() {
			// Who is not let in cannot say its name either.
			sum := sha256.Sum256([]byte(s.name))
			named := fmt.Sprintf("name=sentinel-%x-cmd", sum[:4])
			if s != m && !slices.ContainsFunc(strings.Split(clients, "\n"),
				func(l string) bool { return strings.Contains(l, named) && strings.Contains(l, " user=sentinel ") }) {
				return fmt.Errorf("%s is not logged in at %s", s.pod(), m.pod())
			}
		}
	}
	for _, s := range e.sentinels() {
		knows := e.told(s, "\n", "SENTINEL", "MASTER", "mymaster")
		if knows["ip"] != primary || knows["flags"] != "master" || knows["num-slaves"] != "1" ||
			knows["num-other-sentinels"] != "2" {
			return fmt.Errorf("%s knows %s as %q, with %s replicas, and %s others", s.pod(), knows["ip"], knows["flags"],
				knows["num-slaves"], knows["num-other-sentinels"])
		}
	}
	return nil
}

// tellLogs shows the end of what each has said.
func (e *elected) tellLogs() {
	for _, m := range e.members {
		data, _ := os.ReadFile(filepath.Join(e.root, "m", m.pod(), "log"))
		e.Logf("%s:\n%s", m.pod(), data[max(0, len(data)-3000):])
	}
}
