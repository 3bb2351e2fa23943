// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/store"
)

// moody answers as it is told to: with an error, or never when that is nil.
type moody struct {
	store.Repository
	answers []error
	asked   int
}

func (m *moody) Remove(ctx context.Context, _ string) error {
	answer := m.answers[min(m.asked, len(m.answers)-1)]
	m.asked++
	if answer == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	if errors.Is(answer, errWell) {
		return nil
	}
	return answer
}

var (
	errWell  = errors.New("all is well")
	errFault = errors.New("a fault")
)

func TestPatient(t *testing.T) {
	for what, c := range map[string]struct {
		answers  []error
		patience time.Duration
		want     error
		asked    int
	}{
		"all is well":           {[]error{errWell}, time.Minute, nil, 1},
		"a fault passes":        {[]error{errFault, nil, errWell}, time.Minute, nil, 3},
		"a fault stays":         {[]error{errFault}, 300 * time.Millisecond, errFault, 2},
		"nobody answers":        {[]error{nil}, 0, store.ErrSilent, 1},
		"no repetition":         {[]error{errFault, errWell}, 0, errFault, 1},
		"it is not there":       {[]error{store.ErrAbsent, errWell}, time.Minute, store.ErrAbsent, 1},
		"it is refused":         {[]error{store.Refused{Why: "no"}, errWell}, time.Minute, store.Refused{Why: "no"}, 1},
		"there is no room":      {[]error{store.Full{Why: "no"}, errWell}, time.Minute, store.Full{Why: "no"}, 1},
		"a fault, then refused": {[]error{errFault, store.Refused{Why: "no"}}, time.Minute, store.Refused{Why: "no"}, 2},
	} {
		m := &moody{answers: c.answers}
		p := store.Patient{Repository: m, Patience: store.Patience{Answer: 50 * time.Millisecond, Total: c.patience, Log: slog.New(slog.DiscardHandler)}}
		if err := p.Remove(t.Context(), "a"); !errors.Is(err, c.want) || m.asked != c.asked {
			t.Errorf("%s: %v after %d questions", what, err, m.asked)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errFault)
	p := store.Patient{Repository: &moody{answers: []error{nil}}, Patience: store.Patience{Answer: time.Minute, Total: time.Hour, Log: slog.New(slog.DiscardHandler)}}
	if err := p.Remove(ended, "a"); !errors.Is(err, errFault) {
		t.Errorf("when it is to end: %v", err)
	}
}
