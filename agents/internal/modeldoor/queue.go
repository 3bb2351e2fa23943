// SPDX-License-Identifier: Apache-2.0

package modeldoor

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// dialTimeout is how long a server may take to accept a connection.
	dialTimeout = 2 * time.Second
	// dialInterval is between two attempts to reach a server, of all requests that wait together.
	dialInterval = 100 * time.Millisecond
)

// Reasons why a request is not held any longer.
var (
	errFull = errors.New("as many requests wait for a server as may")
	errLate = errors.New("no server has been there for as long as a request may wait")
)

// queue has requests wait until a server accepts connections.
type queue struct {
	// address of the servers.
	address string
	// most is how many requests may wait.
	most int

	lock    sync.Mutex
	waiting int
	// opened is closed once a server accepts a connection; nil while nobody looks for one.
	opened chan struct{}
}

// len is how many requests wait.
func (q *queue) len() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.waiting
}

// wait returns once a server has accepted a connection, or with the reason why the request cannot wait.
func (q *queue) wait(ctx context.Context, late <-chan time.Time) error {
	opened, err := q.enter()
	if err != nil {
		return err
	}
	defer q.leave()
	select {
	case <-opened:
		return nil
	case <-late:
		return errLate
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue) enter() (<-chan struct{}, error) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if q.waiting >= q.most {
		return nil, errFull
	}
	q.waiting++
	if q.opened == nil {
		q.opened = make(chan struct{})
		go q.look(q.opened)
	}
	return q.opened, nil
}

func (q *queue) leave() {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.waiting--
}

// look tries to reach a server as long as any request waits. It is the only one that does.
func (q *queue) look(opened chan struct{}) {
	for {
		reached := q.reaches()
		q.lock.Lock()
		if reached || q.waiting == 0 {
			q.opened = nil
			close(opened)
			q.lock.Unlock()
			return
		}
		q.lock.Unlock()
		time.Sleep(dialInterval)
	}
}

// reaches says whether a server accepts a connection.
func (q *queue) reaches() bool {
	connection, err := net.DialTimeout("tcp", q.address, dialTimeout)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
