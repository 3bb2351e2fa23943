// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// server is a middleware that notes what is done with it.
type server struct {
	mu   sync.Mutex
	done []string
	// fails is how often a thaw fails, and takes how long a freeze lasts.
	fails int
	takes time.Duration
	// refuses has a freeze fail.
	refuses bool
}

func (s *server) Plan() (*plan.Plan, error) {
	return &plan.Plan{Actions: []plan.Action{{Name: "freeze"}, {Name: "thaw"},
		{Name: "say", Parameters: map[string]string{"word": "string"}}}}, nil
}

func (s *server) Execute(ctx context.Context, name string, _ map[string]string, _ ...string) (callrecord.Outcome,
	string) {
	if name == "freeze" {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			s.note("cut")
			return callrecord.Outcome{Phase: callrecord.Interrupted}, ""
		}
	}
	s.note(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case name == "freeze" && s.refuses:
		return callrecord.Outcome{Phase: callrecord.Failed, Message: "no room"}, ""
	case name == "thaw" && s.fails > 0:
		s.fails--
		return callrecord.Outcome{Phase: callrecord.Failed, Message: "no answer"}, ""
	}
	return callrecord.Outcome{Phase: callrecord.Succeeded, Outputs: map[string]string{"log": "yes"}}, ""
}

func (s *server) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, what)
}

func (s *server) did(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.done, want) {
		t.Errorf("it did %v, want %v", s.done, want)
	}
}

func open(t *testing.T, run string, s *server) *Keeper {
	t.Helper()
	k, err := Open(run, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// asked calls Hold.
func asked(t *testing.T, k *Keeper, key string) Status {
	t.Helper()
	now, err := k.Hold(Request{Key: key, Freeze: "freeze", Thaw: "thaw", Lease: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestAHoldIsOnUntilItIsReleased(t *testing.T) {
	run := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: 2 * time.Second}
		k := open(t, run, s)
		defer k.Close()
		if now := asked(t, k, "a"); now.Phase != Freezing {
			t.Errorf("it begins as %+v", now)
		}
		if _, err := k.Hold(Request{Key: "b", Freeze: "freeze", Lease: time.Second}); !errors.Is(err, ErrBusy) {
			t.Errorf("a second one: %v", err)
		}
		for range 5 {
			time.Sleep(9 * time.Second)
			if now := asked(t, k, "a"); now.Phase != Held || now.Outputs["log"] != "yes" {
				t.Errorf("it goes on as %+v", now)
			}
		}
		if now := k.Release("a"); now.Phase != Released {
			t.Errorf("it ends as %+v", now)
		}
		synctest.Wait()
		s.did(t, "freeze", "thaw")
		// What is asked again is answered from the record, and does nothing.
		if now, again := k.Release("a"), asked(t, k, "a"); now.Phase != Released || !now.Thawed || again.Phase != Released {
			t.Errorf("it says %+v and %+v afterwards", now, again)
		}
		if now := k.Release("z"); now.Phase != Lost || now.Message == "" {
			t.Errorf("what nobody holds is %+v", now)
		}
		if now := asked(t, k, "b"); now.Phase != Freezing {
			t.Errorf("the next one begins as %+v", now)
		}
	})
}

func TestAHoldThatNobodyRenewsIsLost(t *testing.T) {
	run := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &server{fails: 2}
		k := open(t, run, s)
		defer k.Close()
		asked(t, k, "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		// A thaw that fails is run until it succeeds.
		s.did(t, "freeze", "thaw", "thaw", "thaw")
		if now := k.Release("a"); now.Phase != Lost || !now.Thawed || !strings.Contains(now.Message, "lease ran out") {
			t.Errorf("it says %+v", now)
		}
		if now := asked(t, k, "a"); now.Phase != Lost {
			t.Errorf("it comes back as %+v", now)
		}
	})
}

func TestAFreezeThatFailsIsUndone(t *testing.T) {
	run := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &server{refuses: true}
		k := open(t, run, s)
		defer k.Close()
		asked(t, k, "a")
		synctest.Wait()
		if now := asked(t, k, "a"); now.Phase != Lost || now.Message != "no room" || !now.Thawed {
			t.Errorf("it says %+v", now)
		}
		s.did(t, "freeze", "thaw")
	})
}

func TestAFreezeThatTakesTooLongIsCut(t *testing.T) {
	run := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Hour}
		k := open(t, run, s)
		defer k.Close()
		asked(t, k, "a")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		s.did(t, "cut", "thaw")
	})
}

// An agent that ends undoes what is held; one that was killed leaves that to the next one.
func TestAHoldDoesNotOutliveItsAgent(t *testing.T) {
	for name, end := range map[string]func(*Keeper){"ended": (*Keeper).Close, "killed": func(*Keeper) {}} {
		t.Run(name, func(t *testing.T) {
			run := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s, later := &server{}, &server{}
				k := open(t, run, s)
				asked(t, k, "a")
				synctest.Wait()
				end(k)
				next := open(t, run, later)
				defer next.Close()
				synctest.Wait()
				if now := next.Release("a"); now.Phase != Lost || !now.Thawed || now.Message != ended {
					t.Errorf("it says %+v", now)
				}
				if name == "ended" {
					s.did(t, "freeze", "thaw")
					later.did(t)
				} else {
					later.did(t, "thaw")
				}
				k.Close()
			})
		})
	}
}

func TestWhatCannotBeHeld(t *testing.T) {
	k := open(t, t.TempDir(), &server{})
	defer k.Close()
	for name, tc := range map[string]struct {
		request Request
		want    error
	}{
		"no key":       {Request{Freeze: "freeze", Lease: time.Second}, ErrRequest},
		"no action":    {Request{Key: "a", Lease: time.Second}, ErrRequest},
		"for ever":     {Request{Key: "a", Freeze: "freeze", Lease: time.Hour}, ErrRequest},
		"parameters":   {Request{Key: "a", Freeze: "say", Lease: time.Second}, ErrRequest},
		"unknown":      {Request{Key: "a", Freeze: "nothing", Lease: time.Second}, ErrUnknown},
		"unknown thaw": {Request{Key: "a", Freeze: "freeze", Thaw: "nothing", Lease: time.Second}, ErrUnknown},
	} {
		if _, err := k.Hold(tc.request); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}
