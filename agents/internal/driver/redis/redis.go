// SPDX-License-Identifier: Apache-2.0

// Package redis is the driver for Redis. It keeps the users of its access control list (ACL).
//
// Redis forgets such users when it is restarted. The driver keeps those that it made in a file that redis.conf
// includes, as directives with the digests of their passwords, so that they are there again from the first moment on. A
// user that somebody made by hand is not in it.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
)

// KindUser is a user of the ACL.
const KindUser = "acl-user"

// Options of a driver.
type Options struct {
	// Address of the process: host and port.
	Address string
	// CAFile is what the certificate of the process must lead to; empty where it does not speak TLS.
	CAFile string
	// Username and Password that it logs in with. The password is asked for at each call, since it can change.
	Username string
	Password func() (string, error)
	// UsersFile is where it keeps the users that it made; empty where nothing is to be kept.
	UsersFile string
}

// Driver is a driver.Driver for one process. It keeps no connection: a call makes its own, with the password of that
// moment.
type Driver struct{ options Options }

// New returns a driver.
func New(options Options) *Driver {
	// The library writes to standard error what its errors say, too.
	logging.Disable()
	return &Driver{options: options}
}

// Kinds implements driver.Driver.
func (d *Driver) Kinds() []string { return []string{KindUser} }

// Observe implements driver.Driver.
func (d *Driver) Observe(ctx context.Context, kind string, queries []driver.Query) (states []driver.State, err error) {
	if kind != KindUser {
		return nil, unknown(kind)
	}
	err = d.with(ctx, func(client *goredis.Client) error {
		lines, err := client.Do(ctx, "ACL", "LIST").StringSlice()
		if err != nil {
			return fmt.Errorf("cannot list the users: %w", err)
		}
		if states, err = statesOf(lines, queries); err != nil {
			return err
		}
		return d.noteNotKept(states, queries)
	})
	return states, err
}

// Change implements driver.Driver. All changes go in one pipeline. While it is not known what came of one, its user is
// not kept, which Observe tells: a Redis that starts then has too few users, never one that is gone or may do more than
// it should.
func (d *Driver) Change(ctx context.Context, kind string, changes []driver.Change) (driver.Problems, error) {
	if kind != KindUser {
		return nil, unknown(kind)
	}
	before, err := d.kept()
	if err != nil {
		return nil, err
	}
	problems := driver.Problems{}
	kept, unsure := map[string]string{}, map[string]string{}
	err = d.with(ctx, func(client *goredis.Client) error {
		pipeline, answers := client.Pipeline(), map[string]*goredis.Cmd{}
		for _, change := range changes {
			command, directive, err := commandOf(change)
			if err != nil {
				problems[change.Name] = err.Error()
				continue
			}
			answers[change.Name], kept[change.Name], unsure[change.Name] = pipeline.Do(ctx, command...), directive, ""
		}
		if err := d.keep(unsure); err != nil {
			return err
		}
		there := pipeline.Do(ctx, "ACL", "USERS")
		// An error of one command is that of its answer, too.
		_, err := pipeline.Exec(ctx)
		for name, answer := range answers {
			var refused goredis.Error
			switch {
			case answer.Err() == nil:
			case goredis.IsMaxClientsError(answer.Err()):
				// No user was refused.
				return answer.Err()
			case errors.As(answer.Err(), &refused):
				problems[name] = "Redis refuses it: " + withoutDigests(refused.Error())
				kept[name] = before[name]
			default:
				return fmt.Errorf("cannot change users: %w", err)
			}
		}
		return keepOnly(kept, before, there)
	})
	if err != nil {
		return nil, err
	}
	return problems, d.keep(kept)
}

// keepOnly has users no longer be kept that the process does not have: it was started as another one than that which
// they were kept for.
func keepOnly(kept, before map[string]string, there *goredis.Cmd) error {
	names, err := there.StringSlice()
	if err != nil {
		return fmt.Errorf("cannot list the users: %w", err)
	}
	for name := range before {
		if !slices.Contains(names, name) {
			kept[name] = ""
		}
	}
	return nil
}

func unknown(kind string) error { return fmt.Errorf("the driver for redis knows no %q", kind) }

// with calls do with a connection of its own, which ends with the context.
func (d *Driver) with(ctx context.Context, do func(*goredis.Client) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	password, err := d.options.Password()
	if err != nil {
		return err
	}
	config, err := driver.TLS(d.options.CAFile)
	if err != nil {
		return err
	}
	var heard atomic.Pointer[cluster.Heard]
	client := goredis.NewClient(&goredis.Options{
		Network: "tcp", Addr: d.options.Address, Username: d.options.Username, Password: password,
		Dialer: func(dialing context.Context, network, address string) (net.Conn, error) {
			connection, err := driver.Dial(dialing, network, address)
			if err != nil {
				return nil, err
			}
			// The library looks at the deadline of a call, and not at its end.
			context.AfterFunc(ctx, func() { _ = connection.Close() })
			first := &cluster.Heard{Conn: connection}
			if heard.Store(first); config == nil {
				return first, nil
			}
			return tls.Client(first, config), nil
		},
		Protocol: 2, DisableIdentity: true, PoolSize: 1, MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	defer client.Close()
	err = do(client)
	return heard.Load().TurnedAway(err)
}
