// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"
)

const (
	// firstPause is between an answer that failed and the next question; each further pause is twice as long, up to
	// longestPause.
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
	// readAtOnce bounds what is read of an object at a time.
	readAtOnce = 256 << 10
)

// ErrSilent says that a store did not answer in time.
var ErrSilent = errors.New("it did not answer")

// Patience is how long a store is waited for.
type Patience struct {
	// Answer bounds one question.
	Answer time.Duration
	// Total bounds one question and its repetitions; nothing is repeated when it is 0, as for a volume, where the kernel
	// does that itself and a write that hangs may still be done later.
	Total time.Duration
	Log   *slog.Logger
}

// Patient is a repository of which each question has an end: also one of a volume, where the kernel may wait for ever.
type Patient struct {
	Repository
	Patience
}

// OpenFolder opens the store in a folder below a root, which is made where there is none; that of the root when below
// is empty. It belongs to a group, as NewFolderOf has it. It waits no longer than for one answer, and neither does what
// is opened.
func OpenFolder(ctx context.Context, p Patience, group Group, root, below string) (Patient, error) {
	folder, err := once(ctx, p.Answer, func(context.Context) (*Folder, error) {
		folder, err := NewFolderOf(group, root)
		if err != nil || below == "" {
			return folder, err
		}
		return folder.Below(below)
	})
	return Patient{Repository: folder, Patience: p}, err
}

// lasting says whether it is of no use to ask again.
func lasting(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrAbsent) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, new(Refused)) || errors.As(err, new(Full))
}

// ask asks until there is an answer, one that lasts, or no more time.
func ask[T any](ctx context.Context, p Patience, question func(context.Context) (T, error)) (T, error) {
	begun := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		answer, err := once(ctx, p.Answer, question)
		if err == nil || lasting(err) || ctx.Err() != nil || time.Since(begun)+pause > p.Total {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return answer, err
		}
		p.Log.Warn("the repository is asked again", "error", err.Error(), "after", pause.String())
		select {
		case <-ctx.Done():
			return answer, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Ask asks until there is an answer, one that lasts, or no more time: for what is asked of a storage beside a
// repository.
func Ask[T any](ctx context.Context, p Patience, question func(context.Context) (T, error)) (T, error) {
	return ask(ctx, p, question)
}

// Reader is what was opened, of which each read has an end, too.
func (p Patience) Reader(ctx context.Context, from io.ReadCloser) io.ReadCloser {
	return &patientReader{ctx: ctx, patience: p.Answer, from: from}
}

// once asks one time, and does not wait for whom the kernel holds.
func once[T any](ctx context.Context, patience time.Duration, question func(context.Context) (T, error)) (T, error) {
	type result struct {
		answer T
		err    error
	}
	bounded, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w within %v", ErrSilent, patience))
	defer cancel()
	results := make(chan result, 1)
	go func() {
		answer, err := question(bounded)
		results <- result{answer, err}
	}()
	select {
	case r := <-results:
		if r.err != nil && bounded.Err() != nil {
			r.err = context.Cause(bounded)
		}
		return r.answer, r.err
	case <-bounded.Done():
		var none T
		return none, context.Cause(bounded)
	}
}

// do is ask without an answer but an error.
func do(ctx context.Context, p Patience, question func(context.Context) error) error {
	_, err := ask(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, question(ctx) })
	return err
}

// Put implements Store. After an answer that was lost it says that there is one already.
func (p Patient) Put(ctx context.Context, name string, content io.ReadSeeker, size int64) error {
	// Each question has a reader of its own: one that was given up may still be at its.
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return do(ctx, p.Patience, func(ctx context.Context) error {
		return p.Repository.Put(ctx, name, bytes.NewReader(data), size)
	})
}

// Open implements Store. What is read of the object has an end each time, too.
func (p Patient) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	// What is opened is read after the answer.
	object, err := ask(ctx, p.Patience,
		func(context.Context) (io.ReadCloser, error) { return p.Repository.Open(ctx, name) })
	if err != nil {
		return nil, err
	}
	return p.Reader(ctx, object), nil
}

// patientReader reads into what is its own: a read that was given up may still be at it.
type patientReader struct {
	ctx      context.Context
	patience time.Duration
	from     io.ReadCloser
	// silent is why nothing more is read.
	silent error
}

// Read implements [io.Reader].
func (r *patientReader) Read(p []byte) (int, error) {
	if r.silent != nil {
		return 0, r.silent
	}
	type part struct {
		data []byte
		end  error
	}
	got, err := once(r.ctx, r.patience, func(context.Context) (part, error) {
		data := make([]byte, min(len(p), readAtOnce))
		n, err := r.from.Read(data)
		return part{data[:n], err}, nil
	})
	if err != nil {
		r.silent = err
		return 0, err
	}
	return copy(p, got.data), got.end
}

// Close implements [io.Closer]. What hangs is left to the end of the process.
func (r *patientReader) Close() error {
	if r.silent != nil {
		return nil
	}
	return r.from.Close()
}

// List implements Store. A listing is made before anything of it is given.
func (p Patient) List(ctx context.Context, folder, after string) iter.Seq2[string, error] {
	return listed(ctx, p, func(ctx context.Context) iter.Seq2[string, error] {
		return p.Repository.List(ctx, folder, after)
	})
}

// Head implements Store.
func (p Patient) Head(ctx context.Context, name string, count int) ([]byte, error) {
	return ask(ctx, p.Patience, func(ctx context.Context) ([]byte, error) { return p.Repository.Head(ctx, name, count) })
}

// Replace implements Repository.
func (p Patient) Replace(ctx context.Context, name string, content []byte) error {
	return do(ctx, p.Patience, func(ctx context.Context) error { return p.Repository.Replace(ctx, name, content) })
}

// ReadRange implements Repository.
func (p Patient) ReadRange(ctx context.Context, name string, offset int64, size int) ([]byte, error) {
	return ask(ctx, p.Patience, func(ctx context.Context) ([]byte, error) {
		return p.Repository.ReadRange(ctx, name, offset, size)
	})
}

// Remove implements Repository.
func (p Patient) Remove(ctx context.Context, name string) error {
	return do(ctx, p.Patience, func(ctx context.Context) error { return p.Repository.Remove(ctx, name) })
}

// AbandonOf implements Repository.
func (p Patient) AbandonOf(ctx context.Context, name string) error {
	return do(ctx, p.Patience, func(ctx context.Context) error { return p.Repository.AbandonOf(ctx, name) })
}

// Free implements Repository.
func (p Patient) Free(ctx context.Context) (*int64, error) {
	return ask(ctx, p.Patience, p.Repository.Free)
}

// Begin implements Repository.
func (p Patient) Begin(ctx context.Context, name string) (Upload, error) {
	upload, err := ask(ctx, p.Patience, func(ctx context.Context) (Upload, error) { return p.Repository.Begin(ctx, name) })
	return patientUpload{upload, p.Patience}, err
}

type patientUpload struct {
	Upload
	patience Patience
}

// Send implements Upload.
func (u patientUpload) Send(ctx context.Context, number int, data []byte) error {
	return do(ctx, u.patience, func(ctx context.Context) error { return u.Upload.Send(ctx, number, data) })
}

// Finish implements Upload.
func (u patientUpload) Finish(ctx context.Context) error {
	return do(ctx, u.patience, u.Upload.Finish)
}

// Abandon implements Upload.
func (u patientUpload) Abandon(ctx context.Context) error {
	return do(ctx, u.patience, u.Upload.Abandon)
}

// Clear implements Repository. How much there is to remove bounds it, so it is given the time of all repetitions.
func (p Patient) Clear(ctx context.Context, folder string) error {
	return do(ctx, p.long(), func(ctx context.Context) error { return p.Repository.Clear(ctx, folder) })
}

// Objects implements Repository. A listing is made before anything of it is given, and anew where it broke off.
func (p Patient) Objects(ctx context.Context, folder string) iter.Seq2[Object, error] {
	return listed(ctx, p, func(ctx context.Context) iter.Seq2[Object, error] { return p.Repository.Objects(ctx, folder) })
}

func listed[T any](ctx context.Context, p Patient, list func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := ask(ctx, p.long(), func(ctx context.Context) (all []T, err error) {
			for one, err := range list(ctx) {
				if err != nil {
					return nil, err
				}
				all = append(all, one)
			}
			return all, nil
		})
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// long is for what has many questions in it.
func (p Patient) long() Patience {
	long := p.Patience
	long.Answer = max(p.Total, 10*p.Answer)
	return long
}
