// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckSaysWhatIsMissing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	folder := filepath.Join(t.TempDir(), "to", "come")
	said := strings.Join(Check(Needs{Disk: map[string]uint64{folder: 1 << 62}, Port: port}), "\n")
	for _, want := range []string{folder + " has ", fmt.Sprintf("port %d of 127.0.0.1", port),
		fmt.Sprintf("in use by process %d (", os.Getpid())} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in %q", want, said)
		}
	}
	if said := Check(Needs{Disk: map[string]uint64{folder: 1}, Script: "/no/such/script.sh"}); len(said) > 0 {
		t.Errorf("nothing is missing, and it says %q", said)
	}
}

func TestCheckSaysThatAScriptRuns(t *testing.T) {
	script := filepath.Join(t.TempDir(), "endless.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho up; read line\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close() // This ends it.
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d already runs %s", cmd.Process.Pid, script)
	if said := strings.Join(Check(Needs{Script: script}), "\n"); !strings.Contains(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}
}

func TestCommitOfAChangedFolder(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"},
			args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	hash, dirty, err := Commit(root)
	if err != nil || dirty || hash != git("rev-parse", "HEAD") {
		t.Errorf("got %q, %v, %v", hash, dirty, err)
	}
	if err := os.WriteFile(filepath.Join(root, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, dirty, err := Commit(root); err != nil || !dirty {
		t.Errorf("with a new file: %v, %v", dirty, err)
	}
}
