// SPDX-License-Identifier: Apache-2.0

package planfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
)

// ReplicaArgs are the arguments of a process of this pod that follows the primary in another pod. The plan is one that
// was expanded.
func (d Dirs) ReplicaArgs(p *plan.Plan, primary string) ([]string, error) {
	pod := d.pod(p)
	pod.Primary = podtext.PodOf(primary, p.Domain).FQDN
	var args []string
	for _, arg := range p.Writing.ReplicaArgs {
		expanded, err := podtext.Expand(arg, pod)
		if err != nil {
			return nil, fmt.Errorf("writing: replicaArgs: %w", err)
		}
		args = append(args, expanded)
	}
	return args, nil
}

// Writing is what the plan says of who may write: as the current plan has it, since a change of it needs no call, or
// else as the plan that was prepared has it. Nil says that the engine is no authority over that.
func (d Dirs) Writing(prepared *Prepared) *plan.Plan {
	current, err := d.Current()
	if err == nil && current.Writing != nil {
		if here, err := d.Expand(current); err == nil {
			return here
		}
	}
	if prepared.Plan.Writing == nil {
		return nil
	}
	return prepared.Plan
}

// validateWriting refuses what could not be told apart from another set, or judged without expressions, which PID 1
// does not know.
func (d Dirs) validateWriting(p *plan.Plan) error {
	w := p.Writing
	switch {
	case d.PodName != "" && !strings.HasPrefix(d.PodName, w.Set+"-") || w.Set == "":
		return fmt.Errorf("the pod %q is none of the set %q", d.PodName, w.Set)
	case p.Process.Dir == "":
		return errors.New("the process has no working directory, in which what was promised could be kept: set process.dir")
	case p.Domain == "":
		return errors.New("the plan has no domain, in which the other pods could be found")
	}
	if _, err := d.ReplicaArgs(p, w.Set+"-0"); err != nil {
		return err
	}
	if len(w.PrimaryArgs) > 0 || len(w.ReplicaArgs) > 0 {
		if err := validateCommand(append(append([]string{"process"}, w.PrimaryArgs...), w.ReplicaArgs...)); err != nil {
			return err
		}
	}
	if w.FollowOnStart && w.Follow == nil {
		return errors.New("followOnStart has follow run, and there is none")
	}
	for _, named := range []struct {
		name   string
		action *plan.Action
		// primary says that there is a primary to be told.
		primary bool
	}{{"promote", w.Promote, false}, {"follow", w.Follow, true}, {"rejoin", w.Rejoin, true},
		{"updateMembers", w.UpdateMembers, false}} {
		if named.action == nil {
			continue
		}
		if err := validateTransition(*named.action); err != nil {
			return fmt.Errorf("%s: %w", named.name, err)
		}
		for parameter := range named.action.Parameters {
			if !named.primary || parameter != plan.ParameterPrimary {
				return fmt.Errorf("%s: parameter %q is unknown; follow and rejoin have %q, promote and updateMembers have none",
					named.name, parameter, plan.ParameterPrimary)
			}
		}
	}
	return nil
}

func validateTransition(a plan.Action) error {
	if a.Success != "" || len(a.Outputs) > 0 {
		return errors.New("the process manager judges it by its exit code: it can have neither success nor outputs")
	}
	return validateAction(a)
}
