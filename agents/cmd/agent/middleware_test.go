// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/zeroinfra/agents/internal/writing"
)

const (
	// asMiddleware has the test program be a server that takes writes ("server"), or what changes its role ("control").
	asMiddleware = "AGENT_TEST_AS_MIDDLEWARE"
	// controlSocket is in the server's working directory.
	controlSocket = "control"
	// controlFails is there while the changes of the role are to fail.
	controlFails = "control-fails"
	// writesFile is in the environment of a server: where it logs what was written to it.
	writesFile = "AGENT_TEST_WRITES"
)

func middleware(as string, args []string) int {
	var err error
	switch as {
	case "server":
		err = serveWrites(args)
	case "control":
		err = control(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveWrites takes writes while it is the primary, from whoever is connected, for as long as it lives: it refuses a
// graceful stop nothing, but a primary that is deposed is not asked. args: instance, address, and the role with what it
// follows.
func serveWrites(args []string) error {
	instance, address := args[0], args[1]
	var role atomic.Pointer[string]
	role.Store(new(strings.Join(args[2:], " ")))
	log, err := os.OpenFile(os.Getenv(writesFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := os.Remove(controlSocket); err != nil && !os.IsNotExist(err) {
		return err
	}
	controls, err := net.Listen("unix", controlSocket)
	if err != nil {
		return err
	}
	writes, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(*role.Load())
	go accept(controls, func(line string) string {
		role.Store(&line)
		fmt.Println(line)
		return "ok"
	})
	accept(writes, func(line string) string {
		if *role.Load() != "writer" {
			return "no"
		}
		// One line is one write, which the kernel appends as a whole.
		fmt.Fprintf(log, "%d %s %d %s\n", writing.Boottime(), instance, os.Getpid(), line)
		return "ok"
	})
	return nil
}

func accept(l net.Listener, answer func(line string) string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if _, err := fmt.Fprintln(conn, answer(lines.Text())); err != nil {
					return
				}
			}
		}()
	}
}

// control gives the server another role.
func control(args []string) error {
	if _, err := os.Stat(controlFails); err == nil {
		return fmt.Errorf("not now: %s", strings.Join(args, " "))
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	conn, err := net.Dial("unix", filepath.Join(dir, controlSocket))
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintln(conn, strings.Join(args, " "))
	_, err = bufio.NewReader(conn).ReadString('\n')
	return err
}
