// SPDX-License-Identifier: Apache-2.0

// Command testserver starts one kube-apiserver with etcd, runs a command with TESTKIT_SERVER naming it, and ends both.
// Packages whose integration tests that command runs use the server together.
//
//	testserver [--all] COMMAND [ARGUMENT...]
//
// When the command has ended, the audit logs are read: no operator may have been denied anything and, with --all, which
// says that the command runs all integration tests, every right of config/rbac must have been used.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// exempt are rights that no integration test uses, and what does.
var exempt = map[string]string{
	"delete platform.zeroinfra.github.com/components": "the unit tests of controller/application: a component that is " +
		"no longer declared",
	"engine platform.zeroinfra.github.com/plugins": "the admission policies, which recognize an engine by it",
	"impersonate /serviceaccounts": "requests of Operations that run as an account, which are logged as " +
		"that account's",
	"patch events.k8s.io/events": "client-go, for an event that repeats within minutes",
}

func main() {
	all := flag.Bool("all", false, "the command runs all integration tests: check that every right is used")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: testserver [--all] COMMAND [ARGUMENT...]") }
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	check := testkit.CheckDenied
	if *all {
		check = func(folder string) error {
			return errors.Join(testkit.CheckDenied(folder), testkit.CheckRights(folder, exempt))
		}
	}
	if err := serve(flag.Args(), check); err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

// serve runs the command beside a server and then checks the folder with its audit logs.
func serve(command []string, check func(folder string) error) (err error) {
	folder, err := os.MkdirTemp("", "testserver-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	stop, err := testkit.Share(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := run(command, folder); err != nil {
		return fmt.Errorf("%s: %w", command[0], errors.Join(err, testkit.CheckDenied(folder)))
	}
	return check(folder)
}

// run runs the command until its end. A signal is passed on to it, so that it can end by itself.
func run(command []string, folder string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), testkit.ServerVariable+"="+folder)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // It may have ended.
		case err := <-ended:
			return err
		}
	}
}
