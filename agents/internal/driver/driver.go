// SPDX-License-Identifier: Apache-2.0

// Package driver is what the ops agent asks of a driver: a client of a middleware's own protocol that keeps objects
// which live inside it. There is a package for each protocol.
package driver

import "context"

// Intent is what is to become of an object.
type Intent string

// Values of Intent.
const (
	Create Intent = "Create"
	Update Intent = "Update"
	Delete Intent = "Delete"
)

// Query asks for one object.
type Query struct {
	// Name inside the middleware.
	Name string
	// Password that it is to have; empty for none.
	Password string
}

// Password says how what an object has compares to what a Query has.
type Password string

// Values of Password.
const (
	// SamePassword, or none was asked for.
	SamePassword Password = "Same"
	// OtherPassword: what the object has is another one, or more than one, or it needs none.
	OtherPassword Password = "Other"
)

// State is an object as the middleware has it.
type State struct {
	Name string
	// Parameters in the words of a Change.
	Parameters map[string]string
	// Facts by name are what else the middleware tells of it, such as counts. They are for people: nobody can ask for
	// them.
	Facts map[string]string
	// Pending is what the middleware has yet to do for the object to be as Parameters say, though it has taken them;
	// empty for nothing.
	Pending string
	// Password as it compares to that of the Query.
	Password Password
}

// Change is one object as it is to be.
type Change struct {
	Query
	Intent Intent
	// Parameters are all that it is to have.
	Parameters map[string]string
}

// Problems are sentences by name that say why an object could not be changed; the others were.
type Problems map[string]string

// Driver speaks with the middleware of its pod. Calls have the deadline of their context.
type Driver interface {
	// Kinds of objects that it knows.
	Kinds() []string
	// Observe returns those of the objects that are there.
	Observe(ctx context.Context, kind string, queries []Query) ([]State, error)
	// Change makes, changes and removes objects, each as a whole or not at all. To make one that is there, or remove one
	// that is not, is no problem. Calls come one at a time. The error says that nothing is known of what was changed.
	Change(ctx context.Context, kind string, changes []Change) (Problems, error)
}

// Statement is what a Querier is asked, in the words of the middleware's protocol.
type Statement struct {
	// Text of it; arguments are no part of the text.
	Text string
	// Arguments in order.
	Arguments []string
	// Database that it is for; the middleware's own when empty.
	Database string
	// Access: ReadOnly has the middleware refuse what would change something.
	Access Access
	// Report is told how far a statement is that takes long; it may be nil. What the first row has in the column Progress
	// is for people.
	Report func(Table)
}

// Progress is a column with a sentence that says how far a Statement is.
const Progress = "progress"

// Access says what a Statement may do.
type Access string

// Values of Access.
const (
	ReadWrite Access = "ReadWrite"
	ReadOnly  Access = "ReadOnly"
)

// Table is what a Statement gives: rows of texts by column, nil for a value that is not there.
type Table struct {
	Columns []string
	Rows    [][]*string
}

// Querier is a Driver that can be asked. Calls have the deadline of their context, at which the middleware is told to
// stop.
type Querier interface {
	Query(ctx context.Context, statement Statement) (Table, error)
}
