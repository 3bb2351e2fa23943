// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"strings"
	"testing"
)

func TestZooKeeperModeIsTheServersOwnWord(t *testing.T) {
	for said, want := range map[string]struct{ mode, problem string }{
		"Zookeeper version: 3.8.4\nMode: follower\nNode count: 30\n":   {mode: "follower"},
		"Zookeeper version: 3.8.4\nMode: standalone\nNode count: 30\n": {mode: "standalone"},
		"This ZooKeeper instance is not currently serving requests\n":  {problem: "zookeeper serves nobody: This ZooKeeper"},
		"srvr is not executed because it is not in the whitelist.\n":   {problem: "not in the whitelist"},
		"": {problem: "says nothing"},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			question := make([]byte, 4)
			if _, err := io.ReadFull(connection, question); err == nil && string(question) == "srvr" {
				_, _ = io.WriteString(connection, said)
			}
		}()
		mode, err := zooKeeperMode(t.Context(), listener.Addr().String())
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if mode != want.mode || !strings.Contains(problem, want.problem) || (problem == "") != (want.problem == "") {
			t.Errorf("%q: got %q, %q, want %+v", said, mode, problem, want)
		}
	}
}
