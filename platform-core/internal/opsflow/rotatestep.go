// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Credential is one that the plugin of the target declares.
type Credential struct {
	// Name of it.
	Name string
	// Supplied is the Secret that the user has the password in; empty for one that is generated.
	Supplied string
	// Shared says that processes take another password over beside the one before, since they log in at each other.
	Shared bool
}

// Rotation makes the password of a credential anew, once for the key of its effect, and says how far that is.
type Rotation struct {
	// Credential by name.
	Credential string
}

// rotateStep makes passwords anew and waits until every process runs with them and clients are told. All are made
// before any is waited for, so that each process restarts once.
type rotateStep struct{}

func (s rotateStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		if len(step.Targets) == 0 {
			names, why := s.credentials(r, t)
			if why != "" {
				return verdict{failed: why, final: yes}
			}
			for _, name := range names {
				step.Targets = append(step.Targets, platformv1.StepTarget{Name: name, Phase: platformv1.OperationPending})
			}
		}
		r.begin(step)
	}
	var waiting []string
	reason := ""
	for i := range step.Targets {
		target := &step.Targets[i]
		if target.Phase == platformv1.OperationSucceeded {
			continue
		}
		target.Phase = platformv1.OperationRunning
		// Whichever attempt of the step it is: one password is enough.
		key := fmt.Sprintf("%s/%s/%s", r.op.UID, step.Name, target.Name)
		answer, v := r.answer(&Effect{Key: key, Rotation: &Rotation{Credential: target.Name}},
			fmt.Sprintf("the new password of credential %q", target.Name))
		switch {
		case answer == nil:
			if i > 0 {
				v.untouched = ""
			}
			return v
		case answer.Problem != "":
			waiting, reason = append(waiting, answer.Problem), answer.Reason
		default:
			target.Phase = platformv1.OperationSucceeded
		}
	}
	if len(waiting) > 0 {
		return verdict{waiting: strings.Join(waiting, "; "), reason: reason, retry: closePoll}
	}
	return verdict{}
}

// credentials are those to make anew; why says why there is none.
func (rotateStep) credentials(r *run, t *optemplate.Step) (names []string, why string) {
	values, why := r.values(t)
	if why != "" {
		return nil, why
	}
	var known, supplied []string
	for _, c := range r.facts.Credentials {
		known = append(known, c.Name)
		switch {
		case values["credential"] != "" && values["credential"] != c.Name:
		case c.Supplied != "":
			supplied = append(supplied, fmt.Sprintf(
				"the password of credential %q comes from Secret %q: change it there, and the instance takes it over", c.Name,
				c.Supplied))
		default:
			names = append(names, c.Name)
		}
	}
	switch {
	case len(names) > 0:
		return names, ""
	case len(supplied) > 0:
		return nil, strings.Join(supplied, "; ")
	case len(known) > 0:
		slices.Sort(known)
		return nil, fmt.Sprintf("%s has no credential %q; it has: %s", r.facts.Target, values["credential"], list(known))
	}
	return nil, fmt.Sprintf("%s has no passwords", r.facts.Target)
}

func (r *run) describeRotation(t *optemplate.Step) (lines []string, why string) {
	names, why := rotateStep{}.credentials(r, t)
	for _, name := range names {
		line := fmt.Sprintf("makes the password of credential %q anew; the processes that use it restart in place, "+
			"primaries last", name)
		if slices.ContainsFunc(r.facts.Credentials, func(c Credential) bool { return c.Name == name && c.Shared }) {
			line += ", in three rounds, since they log in at each other with it"
		}
		lines = append(lines, line)
	}
	return lines, why
}
