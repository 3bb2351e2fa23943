// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"
)

const (
	// shortPause between two looks while something is waited for doubles up to longPause.
	shortPause = 10 * time.Millisecond
	longPause  = 250 * time.Millisecond
	// settling is how long what was done takes to be seen, other than moved slots.
	settling = 100 * time.Millisecond
	// maxFailures is how many steps in a row may fail before that is told.
	maxFailures = 5
)

// Result of bringing a cluster towards its shape.
type Result struct {
	Phase  Phase  `json:"phase"`
	Reason string `json:"reason"`
	// Steps that were taken, slots that got another owner and keys that went with them, in this call.
	Steps int `json:"steps"`
	Slots int `json:"slots"`
	Keys  int `json:"keys"`
	// Left is how many slots have to move still.
	Left int `json:"left"`
}

// Bringer brings a cluster to its shape.
type Bringer struct {
	Transport Transport
	Login     Login
	// Patience is how long a call waits for what comes by itself.
	Patience time.Duration
	// Budget is how long a call begins new steps, without its Farewell.
	Budget time.Duration
	// RedirectTime is how long primaries that own nothing any more still send clients to the new owners, before they are
	// dropped: a client that asks one of them later gets CLUSTERDOWN or no connection. Clients learn from the first MOVED,
	// or by asking anew now and then.
	RedirectTime time.Duration
	// Report is told what was done and what comes next, whenever that changes; it may be nil.
	Report func(Result)
}

// Bring takes steps until the cluster has its shape, somebody has to do something, or time is over: to be called again
// then. The error is that of the context, or of a step that failed again and again. A call that is cancelled leaves no
// slot open, as far as the members answer.
func (b *Bringer) Bring(ctx context.Context, shape *Shape) (Result, error) {
	var result Result
	var waited time.Time
	begin, failures, how, pause, redirectTime := time.Now(), 0, deeply, shortPause, b.RedirectTime
	for {
		views := look(ctx, b.Transport, shape, how)
		if err := ctx.Err(); err != nil {
			return result, err
		}
		plan := Decide(shape, views)
		if plan.Phase == Done && how == lightly {
			// Once more, for keys that are where no slot is.
			how = deeply
			continue
		}
		how = lightly
		b.tell(&result, plan)
		switch {
		case plan.Phase == Done || plan.Phase == Refused:
			return result, nil
		case plan.Phase == Waiting:
			if waited.IsZero() {
				waited = time.Now()
			}
			if time.Since(waited) > b.Patience {
				return result, nil
			}
			if err := sleep(ctx, pause); err != nil {
				return result, err
			}
			pause = min(2*pause, longPause)
			continue
		case time.Since(begin) > b.Budget:
			return result, nil
		case plan.RedirectsClients && redirectTime > 0:
			if err := sleep(ctx, redirectTime); err != nil {
				return result, err
			}
			begin, redirectTime = begin.Add(redirectTime), 0
			continue
		}
		waited = time.Time{}
		if err := b.take(ctx, &result, plan, views); err != nil {
			if failures++; failures >= maxFailures || ctx.Err() != nil {
				return result, err
			}
		} else {
			failures = 0
		}
		if plan.Steps[0].Kind == Move {
			pause = shortPause
			continue
		}
		// What was done is seen after a moment.
		if err := sleep(ctx, settling); err != nil {
			return result, err
		}
	}
}

func (b *Bringer) tell(result *Result, plan Plan) {
	before := *result
	result.Phase, result.Reason = plan.Phase, plan.Reason
	if len(plan.Steps) > 0 {
		result.Reason += ": " + plan.Steps[0].String()
	}
	if plan.Phase != Waiting {
		result.Left = plan.Left
	}
	if b.Report != nil && before != *result {
		b.Report(*result)
	}
}

// take carries out the steps of a plan; the first that fails is the last.
func (b *Bringer) take(ctx context.Context, result *Result, plan Plan, views []View) error {
	a := &actor{Transport: b.Transport, login: b.Login, views: map[string]*View{},
		progress: func(keys int) { result.Keys += keys }}
	for i := range views {
		a.views[views[i].Member] = &views[i]
	}
	for _, step := range plan.Steps {
		if err := a.act(ctx, step); err != nil {
			result.Reason = err.Error()
			return err
		}
		result.Steps++
		if step.Kind == Move {
			result.Slots += len(step.Slots)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
