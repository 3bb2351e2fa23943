// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestThread: what a confined thread starts has no part in what it is kept from, and in all else.
func TestThread(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"kept/keys", "open/deep"} {
		if err := os.MkdirAll(path(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"kept/keys/secret", "open/deep/known", "single"} {
		if err := os.WriteFile(path(file), []byte("here\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said, failed := make(chan string), make(chan error, 1)
	go func() {
		// The thread ends with this goroutine, which does not give it back.
		runtime.LockOSThread()
		err := Thread(path("kept"), path("single"), path("absent"))
		failed <- err
		out, _ := exec.Command("sh", "-c", `cd "$0"
cat kept/keys/secret; ls kept; echo x >kept/new; cat single; ln open/deep/known kept/link
cat open/deep/known; mv open/deep/known open/moved; echo y >open/moved; cat open/moved; rm open/moved
mkdir open/new; echo z >/dev/null`, dir).CombinedOutput()
		said <- string(out)
	}()
	err, out := <-failed, <-said
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if denied := strings.Count(out, "ermission denied") + strings.Count(out, "cross-device"); denied != 5 ||
		!strings.HasSuffix(out, "here\ny\n") {
		t.Errorf("it says %s", out)
	}
	// Another thread is not.
	if text, err := os.ReadFile(path("kept/keys/secret")); err != nil || string(text) != "here\n" {
		t.Errorf("%q, %v", text, err)
	}
}
