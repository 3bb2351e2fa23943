// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// bodies try to leave their place in nginx's configuration.
var bodies = []string{
	"", " ", "plain", "two words", ";", "{", "}", "a; return 500 b", "}\nserver { listen 1; }\n#", `"`, `'`, `a"b'c`, `\`,
	`\\`, `a\`, `\n`, `\"`, "# no comment",
	"a\nb", "a\r\nb", "\t", "\a\b\v\f\x01\x1f\x7f", "日本語 😀", "include /etc/passwd;", "off", "`id`", "%24",
	strings.Repeat(`\`, 1990),
}

// nginxPod is a pod with a real nginx.
type nginxPod struct {
	*pod
	address string
}

func newNginxPod(t *testing.T) *nginxPod {
	t.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Fatalf("%v: install Debian's package nginx-light", err)
	}
	p := &nginxPod{pod: newPod(t), address: testnet.FreeAddress(t)}
	p.mount(p.plan(1, "1", bodies...))
	return p
}

// plan has nginx answer each path /<n> with a text, and run some workers.
func (p *nginxPod) plan(number int, workers string, texts ...string) *plan.Plan {
	conf := p.path("config/nginx.conf")
	frame := []string{"daemon off;", "pid " + p.path("data/nginx.pid") + ";", "error_log stderr notice;", "include " +
		p.path("config/main.conf") + ";",
		"events {}", "http {", "access_log off;"}
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		frame = append(frame, temp+"_temp_path "+p.path("data/"+temp)+";")
	}
	frame = append(frame, "server {", "listen "+p.address+";")
	files := []plan.File{{}, {Path: p.path("config/main.conf"), Format: plan.FormatNginx,
		Entries: []plan.Entry{{Key: "worker_processes", Args: []string{workers}, Dynamic: true}}}}
	for i, text := range texts {
		file := p.path(fmt.Sprintf("config/text-%d.conf", i))
		frame = append(frame, fmt.Sprintf("location = /%d {\n    default_type text/plain;\n    include %s;\n}", i, file))
		files = append(files, plan.File{Path: file, Format: plan.FormatNginx,
			Entries: []plan.Entry{{Key: "return", Args: []string{"200", text}, Dynamic: true}}})
	}
	files[0] = plan.File{Path: conf, Format: plan.FormatText,
		Entries: []plan.Entry{{Key: "frame", Args: append(frame, "}", "}")}}}
	return &plan.Plan{Version: 1, Digest: digest(number), RestartDigest: digest(1000), Files: files,
		Process: plan.Process{Command: []string{"nginx", "-e", "stderr", "-c", conf}, Stop: plan.Stop{Signal: "SIGQUIT"},
			Reload: &plan.Reload{Signal: "SIGHUP"}}}
}

// get asks over a connection of its own, as a new client does.
func (p *nginxPod) get(path string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + p.address + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

func (p *nginxPod) awaitAnswer(path, want string) {
	p.Helper()
	eventually(p.T, func() error {
		if got, err := p.get(path); err != nil || got != want {
			return fmt.Errorf("%s: got %q, %v; want %q; log:\n%s", path, got, err, want, p.stderr)
		}
		return nil
	})
}

// awaitWorkers waits until the master has this many workers and none of those before, and returns them. Former ones are
// there for a moment beside their successors.
func (p *nginxPod) awaitWorkers(master, count int, before ...int) []int {
	p.Helper()
	var workers []int
	eventually(p.T, func() error {
		workers = slices.DeleteFunc(children(p.T, master), func(pid int) bool {
			title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return err != nil || !strings.HasPrefix(string(title), "nginx: worker process") ||
				strings.Contains(string(title), "shutting down")
		})
		if len(workers) != count || slices.ContainsFunc(workers, func(pid int) bool { return slices.Contains(before, pid) }) {
			return fmt.Errorf("workers are %v, want %d others than %v; log:\n%s", workers, count, before, p.stderr)
		}
		return nil
	})
	return workers
}

// whileAsking runs the action while clients ask all the time, and returns how many were answered and how the others
// failed.
func (p *nginxPod) whileAsking(action func()) (answered int64, failures []error) {
	var ok atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := p.get("/2"); err != nil {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
					continue
				}
				ok.Add(1)
			}
		})
	}
	action()
	close(stop)
	group.Wait()
	return ok.Load(), failures
}

func TestNginx(t *testing.T) {
	p := newNginxPod(t)
	c := p.run()
	client := p.client()
	master := int(p.await(client, "nginx", isRunning).GetPid())
	for i, body := range bodies {
		p.awaitAnswer(fmt.Sprint("/", i), body)
	}
	workers := p.awaitWorkers(master, 1)

	answered, failures := p.whileAsking(func() {
		for number := 2; number < 6; number++ {
			first := fmt.Sprintf("plan %d; {", number)
			next := p.plan(number, fmt.Sprint(number), append([]string{first}, bodies[1:]...)...)
			p.wantRecord(p.reload(client, fmt.Sprint("r", number), next), succeeded, "", "")
			p.awaitAnswer("/0", first)
			workers = p.awaitWorkers(master, number, workers...)
		}
	})
	if answered == 0 || len(failures) > 0 {
		t.Errorf("%d requests were answered, %d were not: %v", answered, len(failures), failures)
	}
	t.Logf("%d requests were answered during 4 reloads", answered)
	status := p.await(client, "nginx", isRunning)
	if int(status.GetPid()) != master || status.GetConfigDigest() != digest(5) || status.GetStarts() != 1 {
		t.Errorf("status is %v, the master was %d", status, master)
	}

	if err := syscall.Kill(master, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	status = p.await(client, "the second start",
		func(s *agentv1.ProcessStatus) bool { return isRunning(s) && s.GetStarts() == 2 })
	p.awaitAnswer("/0", "plan 5; {")
	p.awaitWorkers(int(status.GetPid()), 5)
	if got := c.stop(syscall.SIGTERM); got != 0 {
		t.Errorf("exit code is %d; log:\n%s", got, p.stderr)
	}
}
