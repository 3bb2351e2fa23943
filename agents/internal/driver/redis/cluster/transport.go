// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/zeroinfra/agents/internal/driver"
)

// answerTimeout is how long a member may take for what it answers at once; moving keys has a time of its own.
const answerTimeout = 5 * time.Second

// Network is a Transport over connections of its own to each member, which one call shares. It is safe for concurrent
// use.
type Network struct {
	login  Login
	config *tls.Config

	mu      sync.Mutex
	members map[string]*member
}

// member has one connection: its commands come one after the other.
type member struct {
	sync.Mutex
	client *goredis.Client
	// connection is set by the library's dialer.
	connection atomic.Pointer[net.Conn]
	heard      atomic.Pointer[Heard]
}

// NewNetwork logs in at members with the login; they speak TLS where there is a configuration.
func NewNetwork(login Login, config *tls.Config) *Network {
	return &Network{login: login, config: config, members: map[string]*member{}}
}

// Close ends all connections.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.members {
		_ = m.client.Close()
	}
	clear(n.members)
}

func (n *Network) member(address string) (*member, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.members[address]; m != nil {
		return m, nil
	}
	username, password, err := n.login()
	if err != nil {
		return nil, err
	}
	m := &member{}
	m.client = goredis.NewClient(&goredis.Options{
		Network: "tcp", Addr: address, Username: username, Password: password,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := driver.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			heard := &Heard{Conn: connection}
			m.heard.Store(heard)
			if m.connection.Store(&connection); n.config == nil {
				return heard, nil
			}
			return tls.Client(heard, driver.Named(n.config, address)), nil
		},
		// The deadline is that of the context.
		ReadTimeout: -1, WriteTimeout: -1, ContextTimeoutEnabled: true,
		Protocol: 2, DisableIdentity: true, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
	})
	n.members[address] = m
	return m, nil
}

// Send implements Transport.
func (n *Network) Send(ctx context.Context, address string, commands ...Command) ([]Answer, error) {
	m, err := n.member(address)
	if err != nil {
		return nil, err
	}
	m.Lock()
	defer m.Unlock()
	if _, limited := ctx.Deadline(); !limited || commands[0][0] != "MIGRATE" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTimeout)
		defer cancel()
	}
	if connection := m.connection.Load(); connection != nil {
		driver.Renew(*connection)
	}
	pipeline := m.client.Pipeline()
	cmds := make([]*goredis.Cmd, len(commands))
	for i, command := range commands {
		words := make([]any, len(command))
		for j, word := range command {
			words[j] = word
		}
		cmds[i] = pipeline.Do(ctx, words...)
	}
	// Ends what the library waits for when the context is cancelled, of which it heeds the deadline only.
	stop := context.AfterFunc(ctx, func() {
		if connection := m.connection.Load(); connection != nil {
			_ = (*connection).Close()
		}
	})
	_, err = pipeline.Exec(ctx)
	stop()
	full := (*driver.OutOfConnections)(nil)
	if errors.As(m.heard.Load().TurnedAway(err), &full) {
		return nil, fmt.Errorf("%s: %w", address, full)
	}
	answers := make([]Answer, len(commands))
	for i, cmd := range cmds {
		value, one := cmd.Result()
		var refused goredis.Error
		switch {
		case one == nil || errors.Is(one, goredis.Nil):
			answers[i].Value = value
		case errors.As(one, &refused):
			answers[i].Err = errors.New(refused.Error())
		default:
			return nil, fmt.Errorf("%s does not answer: %w", address, errors.Join(context.Cause(ctx), err))
		}
	}
	return answers, nil
}

// Address implements Transport.
func (n *Network) Address(_ context.Context, address string) (string, error) {
	m, err := n.member(address)
	if err != nil {
		return "", err
	}
	connection := m.connection.Load()
	if connection == nil {
		return "", fmt.Errorf("there is no connection to %s", address)
	}
	return (*connection).RemoteAddr().String(), nil
}
