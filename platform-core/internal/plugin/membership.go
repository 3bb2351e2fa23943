// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Outputs of the actions of a Membership. The check may have the last two, each of which is empty, or a sentence that
// says what to do: OutputLost where so few members are left that nobody takes writes, OutputQuarantined where members
// stay out of the others' cluster since they have data that those have not.
const (
	OutputPhase       = "phase"
	OutputReason      = "reason"
	OutputLost        = "lost"
	OutputQuarantined = "quarantined"
)

// MembershipPhase is what such an action says.
type MembershipPhase string

// Values of MembershipPhase.
const (
	// MembersDone: they are as they are to be.
	MembersDone MembershipPhase = "Done"
	// MembersWorking: there are steps to take.
	MembersWorking MembershipPhase = "Working"
	// MembersWaiting for what comes by itself.
	MembersWaiting MembershipPhase = "Waiting"
	// MembersRefused: somebody has to do something, as the reason says.
	MembersRefused MembershipPhase = "Refused"
)

// Members are those that a component is to have, as names of pods, by set, and those that are to leave.
type Members struct {
	Sets    [][]string
	Leaving []string
	// Moves says whether parts of the data may go from one set to another. Default MovesAllowed.
	Moves Moves
	// Formed says that all members were there once: none may begin the cluster anew.
	Formed bool
}

// Moves says whether parts of the data may go from one set to another.
type Moves string

// Values of Moves.
const (
	MovesAllowed Moves = "Allowed"
	// MovesHeld: a backup takes the data of one set after the other. What is without an owner gets one all the same.
	MovesHeld Moves = "Held"
)

// MembershipParameters are those of the actions. Values gives app and component.
func (b *Bundle) MembershipParameters(c *schema.Component, values placeholder.Values,
	members Members) (map[string]string, error) {
	sets, err := json.Marshal(members.Sets)
	if err != nil {
		return nil, err
	}
	leaving, err := json.Marshal(append([]string{}, members.Leaving...))
	if err != nil {
		return nil, err
	}
	variables := map[string]any{
		"members": string(sets), "leaving": string(leaving), "moves": string(cmp.Or(members.Moves, MovesAllowed)),
		"formed": strconv.FormatBool(members.Formed),
		"app": map[string]any{"name": values.App.Name, "namespace": values.App.Namespace, "version": values.App.Version,
			"topology": values.App.Topology, "tls": values.App.TLS},
		"component": map[string]any{"name": values.Component.Name, "headless": values.Component.Headless,
			"memoryLimit": values.Component.MemoryLimit},
	}
	parameters := map[string]string{}
	for name, text := range c.Membership.Parameters {
		formula, err := membershipText(text)
		if err == nil {
			parameters[name], err = formula.Text(variables)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %q of the membership of component %q has no value: %w", name, c.Name, err)
		}
	}
	return parameters, nil
}

var membershipLanguage = sync.OnceValues(func() (*placeholder.Language, error) {
	return placeholder.NewLanguage(map[string]placeholder.Shape{
		"members": placeholder.TextShape, "leaving": placeholder.TextShape, "moves": placeholder.TextShape,
		"formed": placeholder.TextShape,
		"app": placeholder.Fields(map[string]placeholder.Shape{
			"name": placeholder.TextShape, "namespace": placeholder.TextShape, "version": placeholder.TextShape,
			"topology": placeholder.TextShape, "tls": placeholder.AnyShape,
		}),
		"component": placeholder.Fields(map[string]placeholder.Shape{
			"name": placeholder.TextShape, "headless": placeholder.TextShape, "memoryLimit": placeholder.IntShape,
		}),
	})
})

func membershipText(text string) (*placeholder.Formula, error) {
	language, err := membershipLanguage()
	if err != nil {
		return nil, err
	}
	return language.Text(text)
}

// ofMembership says whether a path leads to components[i].membership.parameters.
func ofMembership(path document.Path) bool {
	return len(path) == 5 && path[0] == "components" && path[2] == "membership" && path[3] == "parameters"
}

// checkMembershipText checks a parameter, which is filled in when the members are known.
func checkMembershipText(text string) error {
	_, err := membershipText(text)
	return err
}

func (l *loader) checkMembership(at document.Path, c *schema.Component) {
	m, path := c.Membership, at.With("membership")
	if m == nil {
		return
	}
	if authorities := l.authorities(c); len(authorities) > 0 && !slices.Contains(authorities, schema.AuthorityMiddleware) {
		l.wrong(path, "is for a component whose authority is middleware: with authority %s there are no members that decide",
			c.Authority)
	}
	if c.PodManagementPolicy == platformv1.PodManagementOrderedReady {
		l.wrong(path, "is for a component with podManagementPolicy Parallel: members may be ready only when all are there")
	}
	if !c.Scales() {
		l.wrong(path, "is for a component that can be scaled: take scaling out")
	}
	for key, name := range map[string]string{"check": m.Check, "action": m.Action} {
		i := slices.IndexFunc(c.Actions, func(a plan.Action) bool { return a.Name == name })
		if i < 0 {
			l.checkActionName(path.With(key), c, name)
			continue
		}
		action := &c.Actions[i]
		for _, output := range []string{OutputPhase, OutputReason} {
			if action.Outputs[output] == "" {
				l.wrong(path.With(key), "names the action %q, which has no output %q: add it to the outputs of that", name, output)
			}
		}
		l.checkGiven(path.With("parameters"), action, m.Parameters)
	}
}

// checkGiven: an action is given all parameters that it takes, and no others.
func (l *loader) checkGiven(path document.Path, action *plan.Action, given map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := action.Parameters[name]; !ok {
			l.wrong(path.With(name), "is no parameter of action %q: it takes %s", action.Name, parameterNames(action))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(action.Parameters)) {
		if _, ok := given[name]; !ok {
			l.wrong(path, "lacks %q, which action %q takes: add it", name, action.Name)
		}
	}
}
