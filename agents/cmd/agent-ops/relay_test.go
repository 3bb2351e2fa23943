// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"io"
	"net"
	"sync"
)

// relay stands for a Service: connections that are made lead to one place, and those before stay where they are.
type relay struct {
	mu sync.Mutex
	to string
}

func (f *flock) newRelay(address string) *relay {
	f.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		f.Fatal(err)
	}
	r := &relay{}
	var open sync.WaitGroup
	f.Cleanup(func() {
		listener.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go r.pass(in)
		}
	})
	return r
}

func (r *relay) lead(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
}

func (r *relay) pass(in net.Conn) {
	defer in.Close()
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	both := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			both <- struct{}{}
		}()
	}
	<-both
}
