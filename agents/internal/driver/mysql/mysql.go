// SPDX-License-Identifier: Apache-2.0

// Package mysql is the driver for MySQL 8.0 and later. It keeps databases, users and what users are granted, and sets
// parameters of a server that runs.
//
// Names and passwords are escaped by the library. Passwords are verifiers of caching_sha2_password in the server; a
// password is compared with its verifier here, so that nobody logs in to find out.
package mysql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/zeroinfra/agents/internal/driver"
)

// Kinds of objects. A user is <user> or <user>@<host>, where the host is % when it is left out. A grant is
// <user>/<database> or <user>/<database>/<table>.
const (
	KindDatabase = "database"
	KindGrant    = "grant"
	KindUser     = "user"
)

// Options of a driver.
type Options struct {
	// Address of the process: host and port, or the path of its unix socket.
	Address string
	// CAFile is what the certificate of the process must lead to; empty where it does not speak TLS.
	CAFile string
	// Username, and Password, which is asked for at each call, since it can change.
	Username string
	Password func() (string, error)
	// Verified remembers passwords that were compared; nil compares them anew each time.
	Verified *Verified
}

// Driver is a driver.Driver for one process. It keeps no connection: a call makes its own, with the password of that
// moment.
type Driver struct{ options Options }

// New returns a driver.
func New(options Options) *Driver { return &Driver{options: options} }

// keeper observes and changes one kind of objects.
type keeper interface {
	// observe returns those of the objects that are there.
	observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error)
	// statements make a change of what is there, which is nil for nothing. MySQL commits each by itself.
	statements(change driver.Change, there *driver.State) ([]statement, error)
}

func (d *Driver) keepers() map[string]keeper {
	return map[string]keeper{KindDatabase: databases{}, KindGrant: grants{}, KindUser: users{d.options}}
}

// Kinds implements driver.Driver.
func (d *Driver) Kinds() []string { return slices.Sorted(maps.Keys(d.keepers())) }

func (d *Driver) keeper(kind string) (keeper, error) {
	k, ok := d.keepers()[kind]
	if !ok {
		return nil, fmt.Errorf("the driver for MySQL knows no %q", kind)
	}
	return k, nil
}

// Observe implements driver.Driver.
func (d *Driver) Observe(ctx context.Context, kind string, queries []driver.Query) (states []driver.State, err error) {
	k, err := d.keeper(kind)
	if err != nil {
		return nil, err
	}
	err = d.with(ctx, "", func(s *session) error {
		states, err = k.observe(ctx, s, queries)
		return err
	})
	return states, err
}

// Change implements driver.Driver. A change of several statements that is cut off is looked at anew: each of them may
// be made again.
func (d *Driver) Change(ctx context.Context, kind string, changes []driver.Change) (driver.Problems, error) {
	k, err := d.keeper(kind)
	if err != nil {
		return nil, err
	}
	problems := driver.Problems{}
	err = d.with(ctx, "", func(s *session) error { return changeAll(ctx, s, k, changes, problems) })
	if err != nil {
		return nil, err
	}
	return problems, nil
}

func changeAll(ctx context.Context, s *session, k keeper, changes []driver.Change, problems driver.Problems) error {
	var queries []driver.Query
	for _, change := range changes {
		queries = append(queries, change.Query)
	}
	observed, err := k.observe(ctx, s, queries)
	if err != nil {
		return err
	}
	there := map[string]*driver.State{}
	for i := range observed {
		there[observed[i].Name] = &observed[i]
	}
	for _, change := range changes {
		statements, err := k.statements(change, there[change.Name])
		if err != nil {
			problems[change.Name] = err.Error()
			continue
		}
		if err := s.carryOut(ctx, statements); err != nil {
			refused := (*mysql.MySQLError)(nil)
			if !errors.As(err, &refused) || refused.Number == errReadOnly {
				return fmt.Errorf("cannot change %q: %w", change.Name, err)
			}
			problems[change.Name] = without(sentenceOf(refused), change.Password)
		}
	}
	return nil
}

// sentenceOf is what the server says.
func sentenceOf(refused *mysql.MySQLError) string { return "MySQL refuses it: " + refused.Message }

// without takes a password out of what the server says.
func without(sentence, password string) string {
	if password == "" {
		return sentence
	}
	return strings.ReplaceAll(sentence, password, "***")
}

// known refuses a parameter that would change nothing.
func known(parameters map[string]string, names ...string) error {
	for _, parameter := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(names, parameter) {
			return fmt.Errorf("parameter %q is not known: known are %s", parameter, strings.Join(names, ", "))
		}
	}
	return nil
}

// yesOrNo of a parameter; no when it is empty.
func yesOrNo(parameters map[string]string, parameter string) (bool, error) {
	switch value := parameters[parameter]; value {
	case "", no:
		return false, nil
	case yes:
		return true, nil
	default:
		return false, fmt.Errorf("parameter %q is %q: it must be yes or no", parameter, value)
	}
}

const (
	yes = "yes"
	no  = "no"
)

func yesIf(is bool) string {
	if is {
		return yes
	}
	return no
}
