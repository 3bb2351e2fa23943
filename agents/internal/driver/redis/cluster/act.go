// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// actor carries out the steps that a plan made from the views has.
type actor struct {
	Transport
	views    map[string]*View
	login    Login
	progress func(keys int)
}

// Login is how one member logs in at another when it moves keys there.
type Login func() (username, password string, err error)

// act carries out one step. Each can be carried out again.
func (a *actor) act(ctx context.Context, step Step) error {
	var err error
	switch step.Kind {
	case SetEpoch:
		err = a.do(ctx, step.On, "CLUSTER", "SET-CONFIG-EPOCH", strconv.FormatUint(step.Epoch, 10))
	case Meet:
		err = a.meet(ctx, step)
	case Assign:
		err = a.assign(ctx, step)
	case Replicate:
		err = a.do(ctx, step.On, "CLUSTER", "REPLICATE", a.views[step.To].ID)
	case Detach:
		// Only a replica loses what it has by this, which is a copy; of a primary with keys Redis refuses it.
		err = a.do(ctx, step.On, "CLUSTER", "RESET", "SOFT")
	case Failover:
		err = a.do(ctx, step.On, strings.Fields("CLUSTER FAILOVER "+string(step.Manner))...)
	case Move:
		err = a.move(ctx, step)
	case Close:
		err = a.setSlots(ctx, step.On, step.Slots, "STABLE")
	case Forget:
		// Who does not know it, need not forget it.
		if err = a.do(ctx, step.On, "CLUSTER", "FORGET", step.ID); err != nil &&
			strings.Contains(err.Error(), "Unknown node") {
			err = nil
		}
	case Reset:
		err = a.do(ctx, step.On, "CLUSTER", "RESET", "HARD")
	default:
		err = fmt.Errorf("%q is no step", step.Kind)
	}
	if err != nil {
		return fmt.Errorf("cannot %s: %w", step, err)
	}
	return nil
}

// do has a member carry out one command.
func (a *actor) do(ctx context.Context, member string, words ...string) error {
	answers, err := a.Send(ctx, member, Command(words))
	if err != nil {
		return err
	}
	return answers[0].Err
}

func (a *actor) meet(ctx context.Context, step Step) error {
	other := a.views[step.To]
	host, port, err := net.SplitHostPort(other.Address)
	if err != nil {
		return err
	}
	words := []string{"CLUSTER", "MEET", host, port}
	if bus := other.own().Bus; bus != "" {
		words = append(words, bus)
	}
	return a.do(ctx, step.On, words...)
}

func (a *actor) assign(ctx context.Context, step Step) error {
	words := []string{"CLUSTER", "ADDSLOTSRANGE"}
	for _, r := range rangesOf(step.Slots) {
		words = append(words, strconv.Itoa(r.First), strconv.Itoa(r.Last))
	}
	return a.do(ctx, step.On, words...)
}

// setSlots has a member set the state of slots; the first error counts.
func (a *actor) setSlots(ctx context.Context, member string, slots []int, state ...string) error {
	commands := make([]Command, len(slots))
	for i, slot := range slots {
		commands[i] = append(Command{"CLUSTER", "SETSLOT", strconv.Itoa(slot)}, state...)
	}
	answers, err := a.Send(ctx, member, commands...)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return answer.Err
		}
	}
	return nil
}
