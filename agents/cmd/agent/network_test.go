// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// link forwards connections until it is cut: then nothing gets through, and no end is told.
type link struct {
	cut  atomic.Bool
	mu   sync.Mutex
	open []net.Conn
}

func newLink(t *testing.T, from, to string) *link {
	t.Helper()
	l := &link{}
	listener, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close(); l.mend() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(conn, to)
		}
	}()
	return l
}

func (l *link) forward(from net.Conn, address string) {
	l.keep(from)
	if l.cut.Load() {
		return
	}
	to, err := net.Dial("tcp", address)
	if err != nil {
		from.Close()
		return
	}
	l.keep(to)
	pipe := func(to, from net.Conn) {
		defer to.Close()
		buffer := make([]byte, 16<<10)
		for {
			n, err := from.Read(buffer)
			if l.cut.Load() {
				// Until the link is mended, which closes both.
				select {}
			}
			if err != nil {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go pipe(to, from)
	pipe(from, to)
}

func (l *link) keep(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, conn)
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut.Store(false)
	for _, conn := range l.open {
		conn.Close()
	}
	l.open = nil
}

// apiServer is the network's end of the API server for one pod.
type apiServer struct {
	*httptest.Server
	// reads of the WorkloadSet.
	reads atomic.Int64
	// down has it answer nothing.
	down atomic.Bool
	// report is the last annotation.
	report atomic.Pointer[string]
}

func newAPIServer(t *testing.T, s *set, m *memberPod) *apiServer {
	t.Helper()
	a := &apiServer{}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Before the body is read, nothing tells that the client has gone.
		body, _ := io.ReadAll(r.Body)
		if a.down.Load() {
			<-r.Context().Done()
			return
		}
		if r.Method == http.MethodPatch {
			text := string(body)
			a.report.Store(&text)
			io.WriteString(w, "{}")
			return
		}
		if r.URL.String() != "/apis/platform.zeroinfra.github.com/v1/namespaces/"+namespaced+"/workloadsets/"+setName ||
			r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		a.reads.Add(1)
		if err := json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"primary": s.get()}}); err != nil {
			t.Logf("the answer was not taken: %v", err)
		}
	}))
	t.Cleanup(func() { a.down.Store(false); a.CloseClientConnections(); a.Close() })
	return a
}

func (a *apiServer) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
}
