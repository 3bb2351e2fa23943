// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
)

// Errors that callers tell apart.
var (
	// ErrExists: something has the name.
	ErrExists = errors.New("there is one already")
	// ErrAbsent: nothing has the name.
	ErrAbsent = errors.New("there is none")
)

// Refused is what no repetition mends: somebody has to change something.
type Refused struct{ Why string }

// Error implements error.
func (r Refused) Error() string { return r.Why }

// Store of objects. It is safe for concurrent use.
type Store interface {
	// Put keeps an object under a name that nothing has yet, or returns ErrExists. It reads content anew where it has to
	// begin again.
	Put(ctx context.Context, name string, content io.ReadSeeker, size int64) error
	// Open reads an object, or returns ErrAbsent.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Head reads the first bytes of an object, count at most, or returns ErrAbsent.
	Head(ctx context.Context, name string, count int) ([]byte, error)
	// List gives the names that begin with a folder and a slash and come after another name, in their order.
	List(ctx context.Context, folder, after string) iter.Seq2[string, error]
	// String says where it is, for people.
	String() string
}

// nameForm leaves nothing to be escaped or to lead elsewhere.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q is no name of an object", name)
	}
	return nil
}

// beneath puts a prefix in front of a name.
func beneath(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return strings.TrimSuffix(prefix, "/") + "/" + name
}
