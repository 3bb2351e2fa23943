// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/teststorage"
)

// runsS3 has the agent check a storage, with the keys of an account where a pod mounts them.
func runsS3(t *testing.T, dir string, arguments ...string) (said string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(
		[]string{"s3", "check", "--secrets-dir", dir, "--ca=storage-ca", "--region=" + teststorage.Region,
			"--addressing=path"}, arguments...)...)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// TestAnS3IsCheckedByTheProbe: each thing that can be wrong has a sentence, and the two that a person mends at
// different places have another exit code.
func TestAnS3IsCheckedByTheProbe(t *testing.T) {
	s := teststorage.New(t)
	dir := t.TempDir()
	put := func(credential, text string) {
		t.Helper()
		folder := filepath.Join(dir, credential)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "password"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("access-key", teststorage.Account)
	put("secret-key", teststorage.SecretKey+"\n")
	put("storage-ca", string(s.CA.PEM()))
	want := func(code int, text string, arguments ...string) {
		t.Helper()
		said, got := runsS3(t, dir, arguments...)
		if got != code || !strings.Contains(said, text) || strings.Contains(said, teststorage.SecretKey) {
			t.Errorf("it ends with %d and says %q, want %d and %q", got, said, code, text)
		}
	}
	at := "--endpoint=" + s.Endpoint()
	want(0, "", at)
	put("secret-key", "another")
	want(keysRefused, "rejects the account or its key", at)
	put("secret-key", teststorage.SecretKey)
	goOn := s.Hang()
	want(1, "did not answer within 1s", at, "--patience=1s")
	goOn()
	want(0, "", at)
	s.Kill()
	want(1, "cannot be reached", at)
	want(1, "is no URL such as https://s3.example.com:9000", "--endpoint=")
}

func TestTheProcessBesideAnS3StorageEndsWhenItIsTold(t *testing.T) {
	cmd := exec.Command(os.Args[0], "s3", "hold")
	cmd.Env = append(os.Environ(), asAgent+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// Told before it listens, it ends by the signal itself.
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.ExitStatus() != 0 &&
		status.Signal() != syscall.SIGTERM {
		t.Errorf("it ends with %v", cmd.ProcessState)
	}
}
