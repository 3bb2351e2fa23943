// SPDX-License-Identifier: Apache-2.0

package acknowledged

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server owns all slots and answers as it is told to. What it was told to write it keeps.
type server struct {
	net.Listener
	// watch is what it answers to the WATCH of this number, from 1 on, and wait what to WAIT.
	watch func(number int) string
	wait  string

	mu      sync.Mutex
	watched int
	keys    map[string]string
}

func serve(t *testing.T, s *server) *redis.ClusterClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener, s.keys = listener, map[string]string{}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.talk(conn)
		}
	}()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{listener.Addr().String()}, MaxRedirects: 2,
		Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// talk answers commands in the form of arrays of strings (RESP) until the client goes.
func (s *server) talk(conn io.ReadWriteCloser) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	line := func() string {
		text, _ := reader.ReadString('\n')
		return strings.TrimSpace(text)
	}
	for {
		count, err := strconv.Atoi(strings.TrimPrefix(line(), "*"))
		if err != nil {
			return
		}
		words := make([]string, count)
		for i := range words {
			line()
			words[i] = line()
		}
		if _, err := io.WriteString(conn, s.answer(words)+"\r\n"); err != nil {
			return
		}
	}
}

func (s *server) answer(words []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch strings.ToLower(words[0]) {
	case "cluster":
		return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d", s.Addr().(*net.TCPAddr).Port)
	case "watch":
		s.watched++
		return s.watch(s.watched)
	case "set":
		s.keys[words[1]] = words[2]
		return "+OK"
	case "wait":
		return s.wait
	case "unwatch":
		return "+OK"
	}
	return "-ERR unknown command"
}

func (s *server) moved() string { return fmt.Sprintf("-MOVED 1 %s", s.Addr()) }

func TestSet(t *testing.T) {
	ok := func(int) string { return "+OK" }
	for name, c := range map[string]struct {
		*server
		says string
		has  bool
	}{
		"a replica has it":  {&server{watch: ok, wait: ":1"}, "", true},
		"no replica has it": {&server{watch: ok, wait: ":0"}, "no replica has it", true},
		"the server is down": {&server{watch: func(int) string { return "-CLUSTERDOWN The cluster is down" }}, "CLUSTERDOWN",
			false},
		"WAIT is not allowed": {&server{watch: ok, wait: "-NOPERM no"}, "NOPERM", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := Set(t.Context(), serve(t, c.server), "a", time.Second)
			if got := fmt.Sprint(err); c.says == "" && err != nil || !strings.Contains(got, c.says) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
			if (c.keys["a"] == "a") != c.has {
				t.Errorf("the server has %v", c.keys)
			}
		})
	}
}

// A write whose last attempt is sent elsewhere is none, whatever Watch says.
func TestAWriteThatWasNeverSent(t *testing.T) {
	s := &server{wait: ":1"}
	s.watch = func(number int) string {
		if number <= 2 {
			return "-CLUSTERDOWN The cluster is down"
		}
		return s.moved()
	}
	if err := Set(t.Context(), serve(t, s), "a", time.Second); !errors.Is(err, errNotSent) {
		t.Errorf("it says %v", err)
	}
	if s.watched != 3 || len(s.keys) > 0 {
		t.Errorf("it was asked %d times, and has %v", s.watched, s.keys)
	}
}

// One that is sent elsewhere in time arrives.
func TestAWriteThatIsSentElsewhere(t *testing.T) {
	s := &server{wait: ":1"}
	s.watch = func(number int) string {
		if number == 1 {
			return s.moved()
		}
		return "+OK"
	}
	if err := Set(t.Context(), serve(t, s), "a", time.Second); err != nil || s.keys["a"] != "a" {
		t.Errorf("it says %v, and the server has %v", err, s.keys)
	}
}
