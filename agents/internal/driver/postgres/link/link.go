// SPDX-License-Identifier: Apache-2.0

// Package link is what those have in common who speak with a PostgreSQL, or with something that speaks like one, beside
// the driver.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// poll is the time between looks at what comes by itself.
const poll = 20 * time.Millisecond

// PausedPrefix is how somebody is called who never comes, whom a primary that is paused waits for. The time at which
// the pause is over, in seconds since 1970, comes after it: the plugin's probe calls a primary unhealthy that is paused
// for longer.
const PausedPrefix = "zeroinfra-paused-"

// Target is where a driver logs in, and as whom.
type Target struct {
	// Address of the process: host and port.
	Address string
	// CAFile is what the certificate of the process must lead to; empty where it does not speak TLS.
	CAFile string
	// Username, and Password, which is asked for at each call, since it can change.
	Username string
	Password func() (string, error)
}

// Config leads to a database there. It names everything that the library would otherwise look up in the environment.
func (t Target) Config(database string) (*pgconn.Config, error) {
	host, port, err := net.SplitHostPort(t.Address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("address %q has no port: %w", t.Address, err)
	}
	password, err := t.Password()
	if err != nil {
		return nil, err
	}
	config, err := pgconn.ParseConfig("host=127.0.0.1 port=5432 user=postgres password=none dbname=postgres " +
		"sslmode=disable passfile=/dev/null")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.User, config.Password, config.Database = host, uint16(number), t.Username, password,
		database
	if config.TLSConfig, err = driver.TLS(t.CAFile); err != nil {
		return nil, err
	}
	config.DialFunc, config.Fallbacks = driver.Dial, nil
	return config, nil
}

// Until looks again and again whether something is so. The error begins with what is not.
func Until(ctx context.Context, what string, isSo func() (bool, error)) error {
	for {
		is, err := isSo()
		if is && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-time.After(poll):
		}
	}
}

// tooManyConnections is the SQLSTATE of all limits of connections.
const tooManyConnections = "53300"

// TurnedAway returns what a server says that has no connection left for who logs in; nil for any other error.
func TurnedAway(err error) *pgconn.PgError {
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == tooManyConnections {
		return refused
	}
	return nil
}

// HangUp ends a session, and waits a moment for that.
func HangUp(connection *pgconn.PgConn) {
	ending, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = connection.Close(ending)
}

// Password of a credential as it is mounted now in a folder, and its revision.
func Password(secrets, credential string) (password, revision string, err error) {
	// The revision before the password: should both change in between, the password is set once more.
	first, err1 := os.ReadFile(filepath.Join(secrets, credential, plan.RevisionFile))
	second, err2 := os.ReadFile(filepath.Join(secrets, credential, "password"))
	return strings.TrimSuffix(string(second), "\n"), string(first), errors.Join(err1, err2)
}
