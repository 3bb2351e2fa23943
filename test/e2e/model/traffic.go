// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zeroinfra/test/e2e/framework"
)

// traffic is what clients of the Inference chat ask for, one request after the other, each by a connection of its own.
// None is tried again.
type traffic struct {
	*framework.Namespace
	answered, failed atomic.Int64
	ending           chan struct{}
	clients          sync.WaitGroup
	broken           atomic.Pointer[error]
}

// way is how clients come to the Inference chat: by its Service, or by a Gateway.
type way struct {
	// address has a port; empty for that of the Service.
	address string
	// host is what a Gateway knows the Inference by; empty for the address.
	host string
}

// wget is a command line of busybox up to the options, and url one of a path.
func (w way) wget(options string) string {
	command := "busybox wget -q -T 60 " + options
	if w.host != "" {
		command += " --header 'Host: " + w.host + "'"
	}
	return command
}

func (w way) url(path string) string {
	return "http://" + cmp.Or(w.address, "inference-chat:8080") + path
}

// request is one that a client makes, and what it does before the next.
type request struct {
	way
	tokens int
	pause  string
}

// batch is how many requests a client makes by one command in a pod.
const batch = 20

// newTraffic starts clients, which end with the test at the latest.
func newTraffic(s *framework.Namespace, clients int, of request) *traffic {
	t := &traffic{Namespace: s, ending: make(chan struct{})}
	script := fmt.Sprintf(`n=0; while [ $n -lt %d ]; do n=$((n+1)); %s
		%s --post-data '{"prompt":"hello","max_tokens":%d,"ignore_eos":true}' %s \
		&& echo answered || echo failed; done`, batch, of.pause,
		of.wget("-O /dev/null --header 'Content-Type: application/json'"), of.tokens, of.url("/v1/completions"))
	for range clients {
		t.clients.Go(func() { t.send(script) })
	}
	return t
}

// send makes requests until the traffic ends.
func (t *traffic) send(script string) {
	for {
		select {
		case <-t.ending:
			return
		default:
		}
		said, err := framework.Run(t.Ctx, t.Name, libraryPod, libraryPod, "", "/usr/bin/busybox", "sh", "-c", script)
		if err != nil {
			t.broken.Store(&err)
			return
		}
		t.answered.Add(int64(strings.Count(said, "answered")))
		t.failed.Add(int64(strings.Count(said, "failed")))
	}
}

// waitFor waits until so many more requests are answered.
func (t *traffic) waitFor(more int64) {
	t.Helper()
	before := t.answered.Load()
	t.Eventually(framework.ReadyTimeout, fmt.Sprintf("%d more requests are answered", more), func() error {
		if err := t.broken.Load(); err != nil {
			return fmt.Errorf("a client ended: %w", *err)
		}
		if now := t.answered.Load() - before; now < more {
			return fmt.Errorf("it is %d, and %d failed in all", now, t.failed.Load())
		}
		return nil
	})
}

// end has the clients make no more requests, and checks that all were answered.
func (t *traffic) end(during string) {
	t.Helper()
	close(t.ending)
	t.clients.Wait()
	if err := t.broken.Load(); err != nil {
		t.Errorf("during %s a client ended: %v", during, *err)
	}
	t.Logf("during %s %d requests are answered, and %d failed", during, t.answered.Load(), t.failed.Load())
	if t.failed.Load() > 0 || t.answered.Load() == 0 {
		t.Errorf("during %s %d requests failed, and %d are answered", during, t.failed.Load(), t.answered.Load())
	}
}
