// SPDX-License-Identifier: Apache-2.0

// Package hold has the middleware keep still for somebody who may die, and undoes that whatever becomes of him.
//
// A hold begins with an action of the plugin (freeze) and ends with another one (thaw). It lasts for as long as its
// owner renews its lease. Thaw is run when the owner asks for it, when the lease has run out, when the agent ends, and
// when an agent starts that finds a hold of the one before it; it is repeated until it succeeds. What is on is in a
// file before anything is done about it.
//
//	FREEZING ──▶ HELD ──▶ RELEASED
//	    └──────────┴────▶ LOST
package hold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// fileName is the file below the run folder.
const fileName = "hold.json"

const (
	// leastLease and longestLease bound what may be asked for.
	leastLease   = time.Second
	longestLease = 2 * time.Minute
	// firstRetry and longestRetry are after how long a thaw that failed is tried again, for the first time and at most.
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	// lastPatience is how long an agent that ends waits for a thaw. The next one goes on with it.
	lastPatience = 10 * time.Second
)

// ended is why a hold is lost that an agent did not live through.
const ended = "the ops agent has ended meanwhile"

// Errors that a caller gets to see.
var (
	// ErrRequest says that the request is none.
	ErrRequest = errors.New("that cannot be held")
	// ErrBusy says that somebody else holds.
	ErrBusy = errors.New("another hold is on: call again when it has ended")
	// ErrUnknown says that the plan has no such action, or not yet.
	ErrUnknown = errors.New("the plugin declares no such action")
)

// Phase is where a hold stands.
type Phase string

// Values of Phase.
const (
	Freezing Phase = "Freezing"
	Held     Phase = "Held"
	// Released: it was on until its owner ended it.
	Released Phase = "Released"
	// Lost: it never was on, or ended before its owner had ended it.
	Lost Phase = "Lost"
)

// Request is a hold that is asked for.
type Request struct {
	// Key names it.
	Key string
	// Freeze and Thaw are actions; Thaw may be empty.
	Freeze, Thaw string
	// Lease is how long it lasts unless it is asked for again.
	Lease time.Duration
}

// Status says how a hold stands.
type Status struct {
	Phase Phase `json:"phase"`
	// Thawed says that what it did is undone.
	Thawed bool `json:"thawed,omitempty"`
	// Message says why it was lost, or why it cannot be undone yet.
	Message string `json:"message,omitempty"`
	// Outputs of the action that began it.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// over says whether it is on no more.
func (s Status) over() bool { return s.Phase == Released || s.Phase == Lost }

// Actions runs those of the plugin.
type Actions interface {
	// Plan is the present one.
	Plan() (*plan.Plan, error)
	// Execute runs one to its end, or until the context ends.
	Execute(ctx context.Context, name string, parameters map[string]string, secrets ...string) (callrecord.Outcome, string)
}

// kept is the last hold, as it is on disk.
type kept struct {
	Key    string `json:"key"`
	Freeze string `json:"freeze"`
	Thaw   string `json:"thaw,omitempty"`
	Status
}

// Keeper keeps the hold of a pod. It is safe for concurrent use.
type Keeper struct {
	actions Actions
	path    string
	log     *slog.Logger

	mu   sync.Mutex
	last *kept
	// until is when the lease runs out, and expiry what rings then.
	until  time.Time
	expiry *time.Timer
	// cut ends the action that freezes.
	cut context.CancelFunc
	// ending is closed by Close.
	ending context.Context
	end    context.CancelFunc
	works  sync.WaitGroup
}

// Open returns the Keeper of a run folder. What an agent before this one held is lost, and undone.
func Open(run string, actions Actions, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{actions: actions, path: filepath.Join(run, fileName), log: log}
	k.ending, k.end = context.WithCancel(context.Background())
	text, err := os.ReadFile(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read what is held: %w", err)
	}
	last := &kept{}
	if err := json.Unmarshal(text, last); err != nil {
		return nil, fmt.Errorf("what is held cannot be understood: %w", err)
	}
	k.last = last
	k.mu.Lock()
	defer k.mu.Unlock()
	frozen := last.Phase == Held
	if !last.over() {
		k.over(Lost, ended)
	}
	if !frozen {
		k.thaw()
	}
	return k, nil
}

// Hold begins a hold, or renews it, and says how it stands.
func (k *Keeper) Hold(r Request) (Status, error) {
	if err := check(r); err != nil {
		return Status{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil && k.last.Key == r.Key {
		k.renew(r.Lease)
		return k.last.Status, nil
	}
	switch {
	case k.ending.Err() != nil:
		return Status{}, k.ending.Err()
	case k.last != nil && !k.last.Thawed:
		return Status{}, ErrBusy
	}
	if err := k.declared(r.Freeze, r.Thaw); err != nil {
		return Status{}, err
	}
	if err := k.write(&kept{Key: r.Key, Freeze: r.Freeze, Thaw: r.Thaw, Status: Status{Phase: Freezing}}); err != nil {
		return Status{}, err
	}
	k.until = time.Now().Add(r.Lease)
	k.expiry = time.AfterFunc(r.Lease, k.expire)
	var ctx context.Context
	ctx, k.cut = context.WithCancel(k.ending)
	k.log.Info("a hold begins", "key", r.Key, "action", r.Freeze)
	k.works.Go(func() { k.freeze(ctx, r.Freeze) })
	return k.last.Status, nil
}

// Release ends a hold, and says how it stood.
func (k *Keeper) Release(key string) Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil || k.last.Key != key {
		return Status{Phase: Lost, Thawed: true, Message: "there is no hold with this key, or it has ended"}
	}
	k.lapse()
	switch k.last.Phase {
	case Freezing:
		k.over(Lost, "it was released before it was on")
	case Held:
		k.over(Released, "")
	}
	return k.last.Status
}

// Close undoes what is held, as far as that is done soon.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.end()
	if k.last != nil && !k.last.over() {
		k.over(Lost, ended)
	}
	k.mu.Unlock()
	k.works.Wait()
}

func check(r Request) error {
	switch {
	case r.Key == "" || len(r.Key) > 256:
		return fmt.Errorf("%w: the key has %d characters: give it 1 to 256", ErrRequest, len(r.Key))
	case r.Freeze == "":
		return fmt.Errorf("%w: no action is named that begins it", ErrRequest)
	case r.Lease < leastLease || r.Lease > longestLease:
		return fmt.Errorf("%w: the lease is %s: give one from %s to %s", ErrRequest, r.Lease, leastLease, longestLease)
	}
	return nil
}

// declared says whether the plan has the actions, without parameters. What is not there cannot be undone.
func (k *Keeper) declared(names ...string) error {
	p, err := k.actions.Plan()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		declared, found := p.Action(name)
		if !found {
			return fmt.Errorf("%w: %q", ErrUnknown, name)
		}
		if len(declared.Parameters) > 0 {
			return fmt.Errorf("%w: action %q takes parameters", ErrRequest, name)
		}
	}
	return nil
}

// renew has the lease begin anew, if the hold is on. Called with the lock.
func (k *Keeper) renew(lease time.Duration) {
	if k.lapse(); k.last.over() {
		return
	}
	k.until = time.Now().Add(lease)
	k.expiry.Reset(lease)
}

// lapse ends a hold whose lease has run out: what should have rung may be late. Called with the lock.
func (k *Keeper) lapse() {
	if !k.last.over() && !time.Now().Before(k.until) {
		k.over(Lost, "its lease ran out: nobody renewed it in time")
	}
}

func (k *Keeper) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lapse()
}

// freeze runs the action that begins the hold.
func (k *Keeper) freeze(ctx context.Context, action string) {
	outcome, _ := k.actions.Execute(ctx, action, nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.over() {
		// It was lost meanwhile, and may have done something all the same: it is undone from here, when nothing more is done.
		k.thaw()
		return
	}
	if outcome.Phase != callrecord.Succeeded {
		k.over(Lost, outcome.Message)
		k.thaw()
		return
	}
	next := *k.last
	next.Phase, next.Outputs = Held, outcome.Outputs
	if err := k.write(&next); err != nil {
		k.over(Lost, err.Error())
		k.thaw()
	}
}

// over ends the hold, and has it undone as soon as what freezes has ended. Called with the lock.
func (k *Keeper) over(phase Phase, why string) {
	frozen := k.last.Phase == Held
	next := *k.last
	next.Phase, next.Message = phase, why
	if err := k.write(&next); err != nil {
		// It is so all the same, and the next agent finds one that was on.
		k.log.Error("cannot note that a hold has ended", "key", next.Key, "error", err.Error())
		k.last = &next
	}
	if k.expiry != nil {
		k.expiry.Stop()
	}
	if k.cut != nil {
		k.cut()
	}
	k.log.Info("a hold has ended", "key", next.Key, "phase", string(phase), "message", why)
	if frozen {
		k.thaw()
	}
}

// thaw undoes what the hold did. Called with the lock, once, when nothing freezes any more.
func (k *Keeper) thaw() {
	if k.last.Thawed {
		return
	}
	k.works.Go(k.undo)
}

// undo runs the action that ends the hold until it succeeds. An agent that ends tries once more.
func (k *Keeper) undo() {
	k.mu.Lock()
	action := k.last.Thaw
	k.mu.Unlock()
	for wait := firstRetry; action != ""; wait = min(2*wait, longestRetry) {
		last := k.ending.Err() != nil
		ctx, cancel := context.WithTimeout(context.Background(), longestLease)
		if last {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), lastPatience)
		}
		outcome, _ := k.actions.Execute(ctx, action, nil)
		cancel()
		if outcome.Phase == callrecord.Succeeded {
			break
		}
		k.log.Error("what was held is not undone yet", "action", action, "message", outcome.Message)
		k.note("it is not undone yet, which is tried again: " + outcome.Message)
		if last {
			return
		}
		select {
		case <-time.After(wait):
		case <-k.ending.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	next := *k.last
	next.Thawed = true
	if err := k.write(&next); err != nil {
		k.log.Error("cannot note that a hold is undone", "key", next.Key, "error", err.Error())
		k.last = &next
	}
}

// note says in memory what keeps a hold from being undone, unless there is a reason already why it was lost.
func (k *Keeper) note(message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.Message == "" {
		next := *k.last
		next.Message = message
		k.last = &next
	}
}

// write has the state on disk, and then in memory. Called with the lock.
func (k *Keeper) write(next *kept) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(k.path, text, 0o600); err != nil {
		return err
	}
	k.last = next
	return nil
}
