// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// etcdUser is who runs it in a pod.
	etcdUser = 999
	// etcdIn is how long a step may take on a busy machine.
	etcdIn = 2 * time.Minute
	// etcdDomain is the end of the names of pods.
	etcdDomain = "store.test"
)

// etcdPods are pods of an etcd in an unpacked image, each with an address of the loopback.
type etcdPods struct {
	*testing.T
	root, net string
	// running pods by ordinal.
	running map[int]*etcdPod
	// resolved are the pods that DNS has.
	resolved []int
}

// etcdPod runs etcd-member again whenever it ends, as the process manager does.
type etcdPod struct {
	mu      sync.Mutex
	cmd     *exec.Cmd
	stopped bool
	done    chan struct{}
}

// TestEtcdMembers has the programs of the image begin a cluster of three members, and scale it to five and back under
// writes, through a step that is cut off, data of members that were removed, and a volume that is lost.
func TestEtcdMembers(t *testing.T) {
	for version, net := range map[string]string{"3.4": "127.0.78.", "3.5": "127.0.79."} {
		t.Run(version, func(t *testing.T) {
			root := unpacked(t, "zeroinfra/etcd:"+version)
			if os.Geteuid() != 0 {
				return
			}
			t.Parallel()
			e := newEtcdPods(t, root, net)
			e.begins()
			w := e.startWriter()
			e.scalesOut()
			e.scalesIn()
			e.comesAgain()
			e.losesVolume()
			w.stop()
			e.beginsOnce()
			e.checkWrites(w)
		})
	}
}

func newEtcdPods(t *testing.T, root, net string) *etcdPods {
	t.Helper()
	e := &etcdPods{T: t, root: root, net: net, running: map[int]*etcdPod{}}
	e.write("etc/nsswitch.conf", "hosts: files\n", 0o644)
	e.write("dev/null", "", 0o666)
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for n := range e.running {
			e.stops(n)
		}
		logs, _ := filepath.Glob(filepath.Join(root, "m", "*", "log"))
		for _, log := range logs {
			if data, err := os.ReadFile(log); err == nil && t.Failed() {
				t.Logf("%s:\n%s\n%s", log, saidByScripts(string(data)), data[max(0, len(data)-1000):])
			}
		}
	})
	return e
}

// saidByScripts are the lines of a log that are not etcd's.
func saidByScripts(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "etcd-member") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func (e *etcdPods) write(path, content string, mode os.FileMode) {
	e.Helper()
	at := filepath.Join(e.root, path)
	err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), mode), os.Chmod(at, mode))
	if err != nil {
		e.Fatal(err)
	}
}

func etcdName(n int) string              { return "store-etcd-main-" + strconv.Itoa(n) }
func (e *etcdPods) address(n int) string { return e.net + strconv.Itoa(10+n) }
func (e *etcdPods) client(n int) string  { return fmt.Sprintf("http://%s:2379", e.address(n)) }
func (e *etcdPods) folder(n int) string  { return filepath.Join(e.root, "m", etcdName(n)) }
func (e *etcdPods) url(n, port int) string {
	return fmt.Sprintf("%s.%s:%d", etcdName(n), etcdDomain, port)
}

// names has DNS know the pod.
func (e *etcdPods) names(n int) {
	e.Helper()
	if !slices.Contains(e.resolved, n) {
		e.resolved = append(e.resolved, n)
	}
	hosts := "127.0.0.1 localhost\n"
	for _, n := range e.resolved {
		hosts += fmt.Sprintf("%s %s.%s\n", e.address(n), etcdName(n), etcdDomain)
	}
	e.write("etc/hosts", hosts, 0o644)
	for _, folder := range []string{e.folder(n), filepath.Join(e.folder(n), "data")} {
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.Chown(folder, etcdUser, etcdUser)); err != nil {
			e.Fatal(err)
		}
	}
}

// command in the container of a pod.
func (e *etcdPods) command(n int, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join("/usr/local/bin", args[0]), args[1:]...)
	if args[0] == "etcdctl" {
		cmd = exec.Command("/usr/bin/etcdctl", args[1:]...)
	}
	cmd.Dir = "/"
	data := "/m/" + etcdName(n)
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "ETCDCTL_API=3", "MEMBER_NAME=" + etcdName(n),
		"MEMBER_DOMAIN=" + etcdDomain, "MEMBER_SCHEME=http", "MEMBER_CA=", "MEMBER_DATA=" + data + "/data/etcd",
		"MEMBER_RUN=" + data,
		"ETCD_ELECTION_TIMEOUT=2000",
	}
	user := &syscall.Credential{Uid: etcdUser, Gid: etcdUser}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: e.root, Credential: user, Setpgid: true}
	return cmd
}

// starts a pod.
func (e *etcdPods) starts(n int) {
	e.Helper()
	e.names(n)
	log, err := os.OpenFile(filepath.Join(e.folder(n), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		e.Fatal(err)
	}
	p := &etcdPod{done: make(chan struct{})}
	e.running[n] = p
	go func() {
		defer close(p.done)
		defer log.Close()
		for p.run(e.command(n, "etcd-member", "--name="+etcdName(n), "--data-dir=/m/"+etcdName(n)+"/data/etcd",
			"--initial-advertise-peer-urls=https://"+e.url(n, 2380), "--listen-peer-urls=https://"+e.address(n)+":2380",
			"--peer-auto-tls", "--advertise-client-urls=http://"+e.url(n, 2379), "--listen-client-urls="+e.client(n),
			"--initial-cluster-token=shop-store", "--pre-vote", "--logger=zap"), log) {
			time.Sleep(200 * time.Millisecond)
		}
	}()
}

// run runs the process to its end, and says whether it is to run again.
func (p *etcdPod) run(cmd *exec.Cmd, log *os.File) bool {
	cmd.Stdout, cmd.Stderr = log, log
	p.mu.Lock()
	if p.stopped || cmd.Start() != nil {
		p.mu.Unlock()
		return false
	}
	p.cmd = cmd
	p.mu.Unlock()
	_ = cmd.Wait()
	return true
}

// stops a pod, by force.
func (e *etcdPods) stops(n int) {
	p := e.running[n]
	p.mu.Lock()
	p.stopped = true
	if p.cmd != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	p.mu.Unlock()
	<-p.done
	delete(e.running, n)
}

// loses has a pod that does not run lose its volume.
func (e *etcdPods) loses(n int) {
	e.Helper()
	if err := os.RemoveAll(filepath.Join(e.folder(n), "data", "etcd")); err != nil {
		e.Fatal(err)
	}
}

// asked is the command line of etcd-members.
func (e *etcdPods) asked(n int, mode string, staying, leaving []int, formed bool) *exec.Cmd {
	list := func(of []int) string {
		var names []string
		for _, n := range of {
			names = append(names, strconv.Quote(etcdName(n)))
		}
		return "[" + strings.Join(names, ",") + "]"
	}
	return e.command(n, "etcd-members", mode, "["+list(staying)+"]", list(leaving), strconv.FormatBool(formed))
}

// says runs etcd-members in a pod.
func (e *etcdPods) says(n int, mode string, staying, leaving []int, formed bool) (phase, reason string) {
	e.Helper()
	cmd := e.asked(n, mode, staying, leaving, formed)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		e.Fatalf("etcd-members %s: %v: %s%s", mode, err, out, log.String())
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "phase=") || !strings.HasPrefix(lines[1], "reason=") {
		e.Fatalf("etcd-members %s says %q", mode, out)
	}
	return strings.TrimPrefix(lines[0], "phase="), strings.TrimPrefix(lines[1], "reason=")
}

// settles has a pod take steps until all is done.
func (e *etcdPods) settles(n int, staying, leaving []int, formed bool) {
	e.Helper()
	end, last := time.Now().Add(etcdIn), ""
	for time.Now().Before(end) {
		phase, reason := e.says(n, "step", staying, leaving, formed)
		if last = phase + ": " + reason; phase == "Done" {
			if phase, reason = e.says(n, "look", staying, leaving, formed); phase != "Done" {
				e.Fatalf("after the last step there is to do: %s: %s", phase, reason)
			}
			return
		}
	}
	e.Fatalf("the members are not as they are to be after %s: %s", etcdIn, last)
}

// wants says what a look finds.
func (e *etcdPods) wants(n int, staying, leaving []int, formed bool, wantPhase, says string) {
	e.Helper()
	phase, reason := e.says(n, "look", staying, leaving, formed)
	if phase != wantPhase || !strings.Contains(reason, says) {
		e.Errorf("pod %d says %s: %q, want %s: %q", n, phase, reason, wantPhase, says)
	}
}

// ctl asks a member.
func (e *etcdPods) ctl(n int, args ...string) (string, error) {
	command := append([]string{"etcdctl", "--endpoints=" + e.client(n), "--command-timeout=5s"}, args...)
	out, err := e.command(n, command...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// until waits for a condition, which says what is not so yet.
func (e *etcdPods) until(what string, missing func() string) {
	e.Helper()
	end, last := time.Now().Add(etcdIn), ""
	for time.Now().Before(end) {
		if last = missing(); last == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	e.Fatalf("%s: not within %s: %s", what, etcdIn, last)
}
