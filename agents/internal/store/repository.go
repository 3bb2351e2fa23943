// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"iter"
)

// PieceSize is how many bytes every piece of a large object has, but for the last. It bounds what is in memory of one.
const PieceSize = 8 << 20

// Full is what a store says that has no room.
type Full struct{ Why string }

// Error implements error.
func (f Full) Error() string { return f.Why }

// Object is one of a store.
type Object struct {
	Name string
	// Size in bytes.
	Size int64
}

// Repository is a Store whose objects can be removed, and that takes large ones in pieces.
type Repository interface {
	Store
	// Replace keeps an object in place of another, or of none.
	Replace(ctx context.Context, name string, content []byte) error
	// ReadRange reads what an object has from an offset on, or returns ErrAbsent, or [io.ErrUnexpectedEOF] when it has
	// less.
	ReadRange(ctx context.Context, name string, offset int64, size int) ([]byte, error)
	// Remove removes an object. One that is not there counts as removed.
	Remove(ctx context.Context, name string) error
	// Clear removes all that is beneath a folder, also what is not whole.
	Clear(ctx context.Context, folder string) error
	// AbandonOf gives the room back that was taken for an object of that name which did not become whole.
	AbandonOf(ctx context.Context, name string) error
	// Objects gives all that are beneath a folder; beneath the empty one are all. Those with the same folder come one
	// after another.
	Objects(ctx context.Context, folder string) iter.Seq2[Object, error]
	// Begin begins an object of which nobody sees anything before it is whole.
	Begin(ctx context.Context, name string) (Upload, error)
	// Free is how many bytes there is room for; nil where nobody can tell.
	Free(ctx context.Context) (*int64, error)
}

// Upload is one object that comes in pieces.
type Upload interface {
	// Send keeps a piece; the first has number 1. It is safe for concurrent use, and can be repeated after an error.
	Send(ctx context.Context, number int, data []byte) error
	// Finish makes the object of all pieces. It can be repeated after an error.
	Finish(ctx context.Context) error
	// Abandon gives the room back that an object took which did not become whole.
	Abandon(ctx context.Context) error
}

// IsName says whether something can be the name of an object or of a folder: it leads nowhere else.
func IsName(name string) bool { return nameForm.MatchString(name) }
