// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// atOnce is how many actions of one call run at a time.
const atOnce = 4

// byActions is a driver.Driver that runs actions of the plan: one that lists all objects, and one for each change.
type byActions struct {
	runner  *action.Runner
	actions plan.EntityActions
	plan    *plan.Plan
}

// Kinds implements driver.Driver: a type is its own kind.
func (b *byActions) Kinds() []string { return nil }

// Observe implements driver.Driver. Nothing can be said of passwords.
func (b *byActions) Observe(ctx context.Context, _ string, queries []driver.Query) ([]driver.State, error) {
	outcome, output := b.runner.Execute(ctx, b.actions.List, nil)
	if outcome.Phase != callrecord.Succeeded {
		return nil, errors.New(outcome.Message)
	}
	var all map[string]map[string]string
	if err := json.Unmarshal([]byte(output), &all); err != nil {
		return nil, fmt.Errorf("action %q must write a JSON object with the parameters, as texts, of each entity by name: %w",
			b.actions.List, err)
	}
	var states []driver.State
	for _, query := range queries {
		if parameters, ok := all[query.Name]; ok {
			states = append(states, driver.State{Name: query.Name, Parameters: parameters, Password: driver.SamePassword})
		}
	}
	return states, nil
}

// Change implements driver.Driver.
func (b *byActions) Change(ctx context.Context, _ string, changes []driver.Change) (driver.Problems, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	problems, slots := driver.Problems{}, make(chan struct{}, atOnce)
	for _, change := range changes {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if problem := b.one(ctx, change); problem != "" {
				mu.Lock()
				defer mu.Unlock()
				problems[change.Name] = problem
			}
		})
	}
	all.Wait()
	return problems, ctx.Err()
}

func (b *byActions) one(ctx context.Context, change driver.Change) string {
	name := map[driver.Intent]string{driver.Create: b.actions.Create, driver.Update: b.actions.Update,
		driver.Delete: b.actions.Delete}[change.Intent]
	declared, ok := b.plan.Action(name)
	if !ok {
		return fmt.Sprintf("the plugin has no action to %s it", change.Intent)
	}
	parameters := map[string]string{}
	for parameter := range declared.Parameters {
		// One that is not set is empty.
		parameters[parameter] = change.Parameters[parameter]
	}
	for parameter, value := range map[string]string{plan.EntityName: change.Name, plan.EntityPassword: change.Password} {
		if _, takes := declared.Parameters[parameter]; takes {
			parameters[parameter] = value
		}
	}
	if outcome, _ := b.runner.Execute(ctx, name, parameters, change.Password); outcome.Phase != callrecord.Succeeded {
		return outcome.Message
	}
	return ""
}
