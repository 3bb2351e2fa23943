// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// lines of all files of the access log together.
func (p *nginxPod) lines(dir string) (count, files int64) {
	p.Helper()
	eventually(p.T, func() (err error) {
		count, files, err = linesOf(filepath.Join(dir, "access.log*"))
		return err
	})
	return count, files
}

// linesOf fails when a file is renamed meanwhile.
func linesOf(pattern string) (count, files int64, err error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return 0, 0, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return 0, 0, err
		}
		count += int64(strings.Count(string(data), "\n"))
	}
	return count, int64(len(paths)), nil
}

// While nginx answers requests its access log is renamed: each request is in one of the files, and the last in the
// present one.
func TestNginxAccessLogsAreRenamed(t *testing.T) {
	p := newNginxPod(t)
	dir := t.TempDir()
	next := p.plan(1, "1", bodies...)
	for i, line := range next.Files[0].Entries[0].Args {
		if line == "access_log off;" {
			next.Files[0].Entries[0].Args[i] = "access_log " + dir + "/access.log;"
		}
		if line == "daemon off;" {
			// In a pod, master and workers have one user, too.
			next.Files[0].Entries[0].Args[i] = "daemon off; user root;"
		}
	}
	next.Logs = &plan.Logs{Dir: dir, Files: []string{"access.log"}, MaxBytes: 5 * 64 << 10, Signal: "SIGUSR1"}
	p.mount(next)
	c := p.run()
	p.await(p.client(), "nginx", isRunning)
	asked := int64(0)
	for i, body := range bodies {
		p.awaitAnswer(fmt.Sprint("/", i), body)
		asked++
	}
	var before int64
	// A request is answered before it is logged.
	eventually(t, func() error {
		if before, _ = p.lines(dir); before < asked {
			return fmt.Errorf("%d lines after %d requests", before, asked)
		}
		return nil
	})
	answered, failures := p.whileAsking(func() {
		eventually(t, func() error {
			if _, err := os.Stat(filepath.Join(dir, "access.log.2")); err != nil {
				lines, files := p.lines(dir)
				return fmt.Errorf("%w; %d lines in %d files; log:\n%s", err, lines, files, p.stderr)
			}
			return nil
		})
	})
	if answered == 0 || len(failures) > 0 {
		t.Errorf("%d requests were answered, %d were not: %v", answered, len(failures), failures)
	}
	eventually(t, func() error {
		if got, files := p.lines(dir); got != before+answered {
			return fmt.Errorf("%d lines in %d files; want %d", got, files, before+answered)
		}
		return nil
	})
	if got := c.stop(syscall.SIGTERM); got != 0 {
		t.Errorf("exit code is %d; log:\n%s", got, p.stderr)
	}
}
