// SPDX-License-Identifier: Apache-2.0

//go:build processes

package cluster_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// writer writes keys, each once, and counts what is acknowledged.
type writer struct {
	client       *goredis.ClusterClient
	acknowledged atomic.Int64
	errors       atomic.Int64
	last         atomic.Value
	stop         context.CancelFunc
	ended        chan struct{}
}

func (g *group) write() *writer {
	g.Helper()
	ctx, cancel := context.WithCancel(g.Context())
	w := &writer{client: g.clients(), stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for i := 0; ctx.Err() == nil; i++ {
			// A key whose writing failed may be there or not: it is written again until it is. What has begun is not cut off at
			// the end.
			for ctx.Err() == nil {
				err := w.client.Set(context.WithoutCancel(ctx), fmt.Sprint("key-", i), i, 0).Err()
				if err == nil {
					w.acknowledged.Add(1)
					break
				}
				w.errors.Add(1)
				w.last.Store(err.Error())
				time.Sleep(time.Millisecond)
			}
			time.Sleep(200 * time.Microsecond)
		}
	}()
	g.Cleanup(w.end)
	return w
}

func (w *writer) end() {
	w.stop()
	<-w.ended
}

// check that each acknowledged key is there, once.
func (g *group) check(w *writer) {
	g.Helper()
	w.end()
	want := int(w.acknowledged.Load())
	if errors := w.errors.Load(); errors > 0 {
		g.Logf("%d errors, the last: %v", errors, w.last.Load())
	}
	// The last one may have failed, and be there nevertheless.
	if got := g.keys(); got != want && got != want+1 {
		g.Errorf("%d keys are there, %d were acknowledged", got, want)
	}
	client := g.clients()
	for i := range want {
		if value, err := client.Get(g.Context(), fmt.Sprint("key-", i)).Int(); err != nil || value != i {
			g.Fatalf("key %d: %d, %v", i, value, err)
		}
	}
	g.Logf("%d keys are there", want)
}

// A cluster begins, grows and shrinks while a client writes.
func TestScaleUnderLoad(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	g.bring("Done")
	g.sound()
	w := g.write()
	g.shards = append(g.shards, []*server{newServer(t), newServer(t)})
	if result := g.bring("Done"); result.Slots < 4090 {
		t.Errorf("%d slots moved", result.Slots)
	}
	g.sound()
	before := w.acknowledged.Load()
	g.eventually(w, before)
	g.leaving, g.shards = g.shards[1:2], append(g.shards[:1:1], g.shards[2:]...)
	// The client asks anew after 10 s.
	g.redirectTime = 11 * time.Second
	g.bring("Done")
	g.sound()
	for _, s := range g.leaving[0] {
		if nodes := s.run("CLUSTER", "INFO"); s.run("DBSIZE") != "0" || s.run("CLUSTER", "MYID") == "" {
			t.Errorf("a member that left says %s", nodes)
		}
	}
	g.check(w)
	if errors := w.errors.Load(); errors > 0 {
		t.Errorf("the client saw %d errors, the last: %v", errors, w.last.Load())
	}
	if result := g.bring("Done"); result.Steps != 0 {
		t.Errorf("what is done is done again: %+v", result)
	}
}

// eventually waits until the client has gone on writing.
func (g *group) eventually(w *writer, before int64) {
	g.Helper()
	for end := time.Now().Add(patience); w.acknowledged.Load() < before+100; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			g.Fatal("the client cannot write")
		}
	}
}
