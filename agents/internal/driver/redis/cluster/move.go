// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// keysAtOnce is how many keys go in one piece.
	keysAtOnce = 100
	// migrateTimeout is how long the two members may be silent while keys go over; for a key that takes longer it grows up
	// to maxMigrateTimeout.
	migrateTimeout    = 2 * time.Second
	maxMigrateTimeout = 2 * time.Minute
	// closing is how long a move that is cancelled may take to leave no slot open.
	closing = 20 * time.Second
)

// move moves slots with their keys. When it is cancelled, slots whose keys have not begun to move are closed again, and
// the one that has is finished. Where that fails, or the agent dies, the next plan finishes what is open.
func (a *actor) move(ctx context.Context, step Step) error {
	from, to := a.views[step.On], a.views[step.To]
	lasting, cancel := lasting(ctx)
	defer cancel()
	// The target first: what is sent there must be let in.
	if err := a.setSlots(lasting, step.To, step.Slots, "IMPORTING", from.ID); err != nil {
		return err
	}
	if err := a.setSlots(lasting, step.On, step.Slots, "MIGRATING", to.ID); err != nil {
		return err
	}
	moved := len(step.Slots)
	for i, slot := range step.Slots {
		if ctx.Err() != nil {
			moved = i
			break
		}
		if err := a.empty(lasting, step, slot); err != nil {
			return err
		}
	}
	if err := a.give(lasting, step, to.ID, step.Slots[:moved]); err != nil {
		return err
	}
	if moved < len(step.Slots) {
		return errors.Join(ctx.Err(), a.closeBoth(lasting, step, step.Slots[moved:]))
	}
	return nil
}

// lasting is a context that outlives the end of another one for as long as it takes to close slots.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(closing, cancel)
		context.AfterFunc(lasting, func() { timer.Stop() })
	})
	return lasting, func() { stop(); cancel() }
}

// give tells all primaries who owns the slots now: the target first, since a slot that only its old owner gave away
// would have none if the target died then.
func (a *actor) give(ctx context.Context, step Step, id string, slots []int) error {
	if len(slots) == 0 {
		return nil
	}
	for _, member := range []string{step.To, step.On} {
		if err := a.setSlots(ctx, member, slots, "NODE", id); err != nil {
			return err
		}
	}
	var others []string
	for member, v := range a.views {
		if member != step.To && member != step.On && v.seen() && v.primary() && v.node(id) != nil {
			others = append(others, member)
		}
	}
	// These hear of it anyhow.
	eachOf(others, func(_ int, member string) { _ = a.setSlots(ctx, member, slots, "NODE", id) })
	return nil
}

func (a *actor) closeBoth(ctx context.Context, step Step, slots []int) error {
	return errors.Join(a.setSlots(ctx, step.On, slots, "STABLE"), a.setSlots(ctx, step.To, slots, "STABLE"))
}

// empty moves all keys of a slot. A key whose transfer fails is still at the source, which drops it only once the
// target has said that it has it; it may be at both then, and that of the source counts.
func (a *actor) empty(ctx context.Context, step Step, slot int) error {
	count, timeout := keysAtOnce, migrateTimeout
	for {
		answers, err := a.Send(ctx, step.On, Command{"CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), strconv.Itoa(count)})
		if err == nil {
			err = answers[0].Err
		}
		if err != nil {
			return err
		}
		keys, err := texts(answers[0].Value)
		if err != nil || len(keys) == 0 {
			return err
		}
		switch err := a.migrate(ctx, step, keys, timeout); {
		case err == nil:
			a.progress(len(keys))
		case !strings.Contains(err.Error(), "IOERR"):
			return err
		case count > 1:
			count = 1
		case timeout < maxMigrateTimeout:
			timeout = min(2*timeout, maxMigrateTimeout)
		default:
			return fmt.Errorf("a key of slot %d does not get over within %s: %w", slot, timeout, err)
		}
	}
}

// migrate has the source send keys.
func (a *actor) migrate(ctx context.Context, step Step, keys []string, timeout time.Duration) error {
	host, port, err := net.SplitHostPort(a.views[step.To].Address)
	if err != nil {
		return err
	}
	username, password, err := a.login()
	if err != nil {
		return err
	}
	words := Command{"MIGRATE", host, port, "", "0", strconv.FormatInt(timeout.Milliseconds(), 10), "REPLACE"}
	switch {
	case password == "":
	case username == "":
		words = append(words, "AUTH", password)
	default:
		words = append(words, "AUTH2", username, password)
	}
	// Connecting, logging in, sending and hearing the answer may each take as long.
	ctx, cancel := context.WithTimeout(ctx, answerTimeout+4*timeout)
	defer cancel()
	answers, err := a.Send(ctx, step.On, append(append(words, "KEYS"), keys...))
	if err != nil {
		return err
	}
	return answers[0].Err
}

func texts(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("the answer %v is no list", value)
	}
	all := make([]string, len(list))
	for i, one := range list {
		if all[i], ok = one.(string); !ok {
			return nil, fmt.Errorf("the answer %v is no text", one)
		}
	}
	return all, nil
}
