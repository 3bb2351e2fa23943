// SPDX-License-Identifier: Apache-2.0

// Package entity observes and changes objects that live inside the middleware, such as users, many at a time: by a
// driver for the middleware's protocol, or by actions of the plan.
package entity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/driver"
)

const (
	// MaxQueries is how many objects one call can ask for.
	MaxQueries = 1000
	// MaxChanges is how many objects one call can change.
	MaxChanges = 500
	// driverTimeout bounds what a driver does for one call.
	driverTimeout = 15 * time.Second
	// maxProblems bounds the sentences that are kept with a call, in bytes.
	maxProblems = 16 << 10
	// ellipsis stands for the rest of a sentence.
	ellipsis = "…"
)

// Errors that a caller gets to see, beside those of package action.
var (
	// ErrUnknown says that the plan has no such type.
	ErrUnknown = errors.New("the plugin declares no such type of entities")
	// ErrRequest says that a call asks for what no call can.
	ErrRequest = errors.New("the call cannot be served")
	// ErrMiddleware says that the middleware does not do what it is asked.
	ErrMiddleware = errors.New("the middleware does not answer as it should")
)

// Keeper keeps the objects of a pod. It is safe for concurrent use.
type Keeper struct {
	runner *action.Runner
	// changing has the changes of one call after those of another.
	changing sync.Mutex
}

// New returns a Keeper whose changes are calls of the runner.
func New(runner *action.Runner) *Keeper { return &Keeper{runner: runner} }

// Observe returns those of the objects that are there.
func (k *Keeper) Observe(ctx context.Context, name string, queries []driver.Query) ([]driver.State, error) {
	if err := checkNames(queries, MaxQueries, func(q driver.Query) string { return q.Name }); err != nil {
		return nil, err
	}
	by, kind, err := k.resolve(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	states, err := by.Observe(ctx, kind, queries)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMiddleware, err)
	}
	return states, nil
}

// Call asks for changes.
type Call struct {
	// Key is the idempotency key.
	Key string
	// Term of the caller.
	Term uint64
	// Type of the objects.
	Type string
	// Changes, each of another object.
	Changes []driver.Change
}

// method names the intent without the passwords, since it is written down.
func (c Call) method() string {
	type change struct {
		Name       string            `json:"name"`
		Intent     driver.Intent     `json:"intent"`
		Parameters map[string]string `json:"parameters"`
	}
	var all []change
	for _, one := range c.Changes {
		all = append(all, change{one.Name, one.Intent, one.Parameters})
	}
	// Texts and maps of texts.
	data, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf("ChangeEntities of %d %s: %s", len(all), c.Type, hex.EncodeToString(sum[:6]))
}

// Change begins to change objects. A call that was made before does nothing again: what is returned is that run, or its
// record. The outputs of one that succeeded are the problems with single objects.
func (k *Keeper) Change(call Call) (*action.Run, error) {
	if err := checkNames(call.Changes, MaxChanges, func(c driver.Change) string { return c.Name }); err != nil {
		return nil, err
	}
	return k.runner.Once(action.Intent{Key: call.Key, Method: call.method(), Term: call.Term},
		func() (action.Work, error) {
			by, kind, err := k.resolve(call.Type)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, _ *action.Run) callrecord.Outcome {
				return k.change(ctx, by, kind, call.Changes)
			}, nil
		})
}

func (k *Keeper) change(ctx context.Context, by driver.Driver, kind string,
	changes []driver.Change) callrecord.Outcome {
	k.changing.Lock()
	defer k.changing.Unlock()
	problems, err := by.Change(ctx, kind, changes)
	switch {
	case err != nil && ctx.Err() != nil:
		return callrecord.Outcome{Phase: callrecord.Interrupted,
			Message: "the ops agent was stopped while it changed entities: how far it came is not known"}
	case err != nil:
		return callrecord.Outcome{Phase: callrecord.Failed, Message: err.Error()}
	}
	shorten(problems)
	return callrecord.Outcome{Phase: callrecord.Succeeded, Outputs: problems}
}

// shorten cuts sentences down to equal shares of what is kept. None goes: what has no problem counts as done.
func shorten(problems driver.Problems) {
	size := 0
	for _, sentence := range problems {
		size += len(sentence)
	}
	if size <= maxProblems {
		return
	}
	share := maxProblems/len(problems) - len(ellipsis)
	for name, sentence := range problems {
		if len(sentence) > share+len(ellipsis) {
			problems[name] = strings.ToValidUTF8(sentence[:share], "") + ellipsis
		}
	}
}

// resolve returns who keeps a type, and what it is called there.
func (k *Keeper) resolve(name string) (driver.Driver, string, error) {
	p, err := k.runner.Plan()
	if err != nil {
		return nil, "", err
	}
	declared, ok := p.EntityType(name)
	switch {
	case !ok:
		return nil, "", fmt.Errorf("%w: %q", ErrUnknown, name)
	case declared.Actions != nil:
		return &byActions{runner: k.runner, actions: *declared.Actions, plan: p}, name, nil
	}
	by, err := k.runner.Drivers().Open(p.Driver)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %q: %w", ErrUnknown, name, err)
	}
	if !slices.Contains(by.Kinds(), declared.Kind) {
		return nil, "", fmt.Errorf("%w: the driver for %s knows no %q", ErrUnknown, p.Driver.Protocol, declared.Kind)
	}
	return by, declared.Kind, nil
}

func checkNames[T any](all []T, most int, name func(T) string) error {
	if len(all) == 0 || len(all) > most {
		return fmt.Errorf("%w: it has %d entities, and 1 to %d are allowed", ErrRequest, len(all), most)
	}
	seen := make(map[string]bool, len(all))
	for _, one := range all {
		if name(one) == "" || seen[name(one)] {
			return fmt.Errorf("%w: the name %q is empty, or there twice", ErrRequest, name(one))
		}
		seen[name(one)] = true
	}
	return nil
}
