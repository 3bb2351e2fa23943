// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asUnhurried has the test binary be a program that is.
const asUnhurried = "TEST_UNHURRIED"

func TestMain(m *testing.M) {
	if os.Getenv(asUnhurried) == "" {
		os.Exit(m.Run())
	}
	if err := Unhurried(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// A thread that is only made now has it from those of the runtime.
	told := make(chan string)
	go func() {
		runtime.LockOSThread()
		slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		told <- fmt.Sprint(slack, err, os.Args[1:], os.Getpid())
	}()
	fmt.Println(<-told)
	os.Exit(0)
}

func TestUnhurriedIsOfAllThreads(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "one", "two words")
	cmd.Env = append(os.Environ(), asUnhurried+"=1")
	said, err := cmd.CombinedOutput()
	if want := fmt.Sprint(2000000, nil, []string{"one", "two words"}, cmd.Process.Pid); err != nil ||
		strings.TrimSpace(string(said)) != want {
		t.Errorf("it says %q, %v; want %q", said, err, want)
	}
}
