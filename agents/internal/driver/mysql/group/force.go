// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Loss is what a user declares of a group that cannot go on by itself.
type Loss struct {
	// Members are all of them.
	Members []string
	// Lost are those whose data is given up. One of them may still answer, when it has what the others have not.
	Lost []string
	// From is the member that the group begins with.
	From string
}

// LookForced says what would be given up, and refuses what Force would.
func (g *Group) LookForced(ctx context.Context, loss Loss) (string, error) {
	f, err := g.find(ctx, loss.Members)
	if err != nil {
		return "", err
	}
	if err := loss.refused(f); err != nil {
		return "", err
	}
	if s := force(f, loss); s.phase == Refused {
		return "", errors.New(s.reason)
	}
	return loss.givenUp(f), nil
}

// Force has one member begin the group anew. The others join it afterwards, those that are lost once they are made
// anew.
func (g *Group) Force(ctx context.Context, loss Loss) error {
	for {
		f, err := g.find(ctx, loss.Members)
		if err != nil {
			return err
		}
		s := force(f, loss)
		switch s.phase {
		case Done:
			return nil
		case Refused:
			return errors.New(s.reason)
		}
		if err := g.take(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.reason, err)
		}
	}
}

// refused says why nothing is to be forced: the group goes on, or can by itself.
func (l Loss) refused(f found) error {
	for _, pod := range l.Members {
		if f.views[pod].hasQuorum() {
			return fmt.Errorf("%s is in a group that has most of its members: nothing is lost, others join when they are "+
				"back, and RebuildMember makes one anew", pod)
		}
	}
	answers := func(pod string) bool { return f.views[pod].problem == "" }
	if first := f.first(l.Members); first != "" &&
		!slices.ContainsFunc(l.Members, func(pod string) bool { return !answers(pod) }) {
		return fmt.Errorf("all members answer, and %s has all transactions: the group goes on by itself", first)
	}
	return nil
}

// givenUp says of each lost member what is known of its transactions.
func (l Loss) givenUp(f found) string {
	var said []string
	for _, pod := range l.Lost {
		switch missing := f.missing[[2]string{pod, l.From}]; {
		case f.views[pod].problem != "":
			said = append(said, pod+" does not answer: its transactions are not known")
		case missing != "":
			said = append(said, fmt.Sprintf("%s has %s, and %s has not", pod, missing, l.From))
		default:
			said = append(said, fmt.Sprintf("%s has nothing that %s has not", pod, l.From))
		}
	}
	return strings.Join(said, "; ")
}

// check says what is wrong with the declaration itself.
func (l Loss) check() string {
	for i, pod := range l.Lost {
		switch {
		case !slices.Contains(l.Members, pod):
			return fmt.Sprintf("%q, which is declared lost, is no member: those are %s", pod, strings.Join(l.Members, ", "))
		case slices.Contains(l.Lost[:i], pod):
			return fmt.Sprintf("%s is declared lost twice", pod)
		}
	}
	switch {
	case len(l.Lost) == 0:
		return "no member is declared lost"
	case !slices.Contains(l.Members, l.From):
		return fmt.Sprintf("%q, which the group is to begin with, is no member: those are %s", l.From,
			strings.Join(l.Members, ", "))
	case slices.Contains(l.Lost, l.From):
		return l.From + " is declared lost, and the group is to begin with it"
	}
	return ""
}

// force decides on one step. A group that has most of its members is left as it is: the one that was to begin it may
// have done so.
func force(f found, loss Loss) step {
	if wrong := loss.check(); wrong != "" {
		return refuse("%s", wrong)
	}
	for _, pod := range loss.Members {
		if v := f.views[pod]; v.problem == "" && v.hasQuorum() {
			return f.forced(pod, loss)
		}
	}
	for _, pod := range loss.Members {
		if slices.Contains(loss.Lost, pod) || pod == loss.From {
			continue
		}
		if problem := f.views[pod].problem; problem != "" {
			return refuse("%s does not answer, and is not declared lost: bring it back, or add it to those that are: %s", pod,
				problem)
		}
		if missing := f.missing[[2]string{pod, loss.From}]; missing != "" {
			return refuse("%s has transactions that %s has not: %s. Begin with %s, or declare it lost", pod, loss.From, missing,
				pod)
		}
	}
	switch v := f.views[loss.From]; {
	case v.problem != "":
		return refuse("%s, which the group is to begin with, does not answer: %s", loss.From, v.problem)
	case v.transactions == "":
		return refuse("%s, which the group is to begin with, has no data", loss.From)
	}
	for _, pod := range loss.Members {
		if v := f.views[pod]; v.problem == "" && v.inGroup() {
			return step{phase: Working, reason: pod + " leaves the group that has lost most of its members", action: actionLeave,
				pod: pod}
		}
	}
	return step{phase: Working, reason: loss.From + " begins the group", action: actionBootstrap, pod: loss.From}
}

// forced judges a group that takes writes, which one member knows.
func (f found) forced(known string, loss Loss) step {
	sees := f.views[known].sees
	for _, pod := range loss.Lost {
		if v := f.views[pod]; v.problem == "" && sees[v.uuid].state == stateOnline {
			return refuse("%s is in a group that takes writes, and so not lost", pod)
		}
	}
	if _, isIn := sees[f.views[loss.From].uuid]; !isIn {
		return refuse("%s is in a group that takes writes, and %s is not", known, loss.From)
	}
	return step{phase: Done}
}
