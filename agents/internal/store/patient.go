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
	// firstPause is between an answer that failed and the next question; each further pause is twice as long, up to longestPause.
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
)

// ErrSilent says that a store did not answer in time.
var ErrSilent = errors.New("it did not answer")

// Patience is how long a store is waited for.
type Patience struct {
	// Answer bounds one question.
	Answer time.Duration
	// Total bounds one question and its repetitions; nothing is repeated when it is 0, as for a volume, where the kernel does that itself and
	// a write that hangs may still be done later.
	Total time.Duration
	Log   *slog.Logger
}

// Patient is a repository of which each question has an end: also one of a volume, where the kernel may wait for ever.
type Patient struct {
	Repository
	Patience
}

// lasting says whether it is of no use to ask again.
func lasting(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrAbsent) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(Refused)) || errors.As(err, new(Full))
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
	return do(ctx, p.Patience, func(ctx context.Context) error { return p.Repository.Put(ctx, name, bytes.NewReader(data), size) })
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
	return ask(ctx, p.Patience, func(ctx context.Context) ([]byte, error) { return p.Repository.ReadRange(ctx, name, offset, size) })
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
	return func(yield func(Object, error) bool) {
		objects, err := ask(ctx, p.long(), func(ctx context.Context) (objects []Object, err error) {
			for object, err := range p.Repository.Objects(ctx, folder) {
				if err != nil {
					return nil, err
				}
				objects = append(objects, object)
			}
			return objects, nil
		})
		if err != nil {
			yield(Object{}, err)
			return
		}
		for _, object := range objects {
			if !yield(object, nil) {
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
