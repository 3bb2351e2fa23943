// SPDX-License-Identifier: Apache-2.0

// Package postgres is the driver for PostgreSQL. It keeps databases, roles, grants and extensions.
//
// It logs in as the superuser over loopback. Names are quoted by the library and values are arguments where the server
// takes them; of a password the server gets only the SCRAM verifier, so that the password itself can be in no log of
// its own.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/driver/postgres/link"
)

// Kinds of objects. Those that are within a database have its name in theirs: extensions are <database>/<extension>,
// and grants <role>/<database>, <role>/<database>/<schema> or <role>/<database>/<schema>/<table>.
const (
	KindDatabase  = "database"
	KindRole      = "role"
	KindExtension = "extension"
	KindGrant     = "grant"
)

// maintenance is the database that is always there.
const maintenance = "postgres"

// Options of a driver.
type Options struct {
	// Target is the process, and the superuser.
	link.Target
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
	// database has the object, as far as it is within one.
	database(name string) string
	// observe returns those of the objects in the database of the session that are there.
	observe(ctx context.Context, s *session, queries []driver.Query) ([]driver.State, error)
	// statements make a change of what is there, which is nil for nothing. They are carried out as a whole.
	statements(s *session, change driver.Change, there *driver.State) ([]string, error)
}

func (d *Driver) keepers() map[string]keeper {
	return map[string]keeper{KindDatabase: databases{d.options}, KindRole: roles{d.options}, KindExtension: extensions{},
		KindGrant: grants{}}
}

// Kinds implements driver.Driver.
func (d *Driver) Kinds() []string { return slices.Sorted(maps.Keys(d.keepers())) }

func (d *Driver) keeper(kind string) (keeper, error) {
	k, ok := d.keepers()[kind]
	if !ok {
		return nil, fmt.Errorf("the driver for PostgreSQL knows no %q", kind)
	}
	return k, nil
}

// Observe implements driver.Driver. An object of a database that is not there, or lets nobody in, is not there.
func (d *Driver) Observe(ctx context.Context, kind string, queries []driver.Query) ([]driver.State, error) {
	k, err := d.keeper(kind)
	if err != nil {
		return nil, err
	}
	var all []driver.State
	for database, queries := range byDatabase(queries, func(q driver.Query) string { return k.database(q.Name) }) {
		err := d.with(ctx, database, func(s *session) error {
			states, err := k.observe(ctx, s, queries)
			all = append(all, states...)
			return err
		})
		if err != nil && !isAbsent(err) && !isClosed(err) {
			return nil, err
		}
	}
	return all, nil
}

// Change implements driver.Driver. Each object is changed in a transaction of its own.
func (d *Driver) Change(ctx context.Context, kind string, changes []driver.Change) (driver.Problems, error) {
	k, err := d.keeper(kind)
	if err != nil {
		return nil, err
	}
	problems := driver.Problems{}
	for database, changes := range byDatabase(changes, func(c driver.Change) string { return k.database(c.Name) }) {
		err := d.with(ctx, database, func(s *session) error { return changeAll(ctx, s, k, changes, problems) })
		switch {
		case isAbsent(err):
			// With the database, all that was in it is gone.
			for _, change := range changes {
				if change.Intent != driver.Delete {
					problems[change.Name] = fmt.Sprintf("there is no database %q: create it first", database)
				}
			}
		case isClosed(err):
			for _, change := range changes {
				problems[change.Name] = fmt.Sprintf("the database %q lets nobody in: set ALLOW_CONNECTIONS true for it", database)
			}
		case err != nil:
			return nil, err
		}
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
		statements, err := k.statements(s, change, there[change.Name])
		if err != nil {
			problems[change.Name] = err.Error()
			continue
		}
		if err := s.carryOut(ctx, statements); err != nil {
			refused := (*pgconn.PgError)(nil)
			if !errors.As(err, &refused) || s.connection.IsClosed() {
				return fmt.Errorf("cannot change %q: %w", change.Name, err)
			}
			problems[change.Name] = sentenceOf(refused)
		}
	}
	return nil
}

// byDatabase groups what is asked for by the database that has it.
func byDatabase[T any](all []T, database func(T) string) map[string][]T {
	groups := map[string][]T{}
	for _, one := range all {
		groups[database(one)] = append(groups[database(one)], one)
	}
	return groups
}
