// SPDX-License-Identifier: Apache-2.0

package planfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// fenced is a plan of a pod whose primary the engine names.
func fenced(d planfile.Dirs) *plan.Plan {
	p := valid(d, 1)
	p.Domain, p.Process.Dir = "redis-orders.shop.svc", "/data"
	p.Writing = &plan.Writing{
		Set: "redis-orders", PrimaryArgs: []string{"--name", "${pod.name}"},
		ReplicaArgs: []string{"--replicaof", "${primary.fqdn} 6379", "$${primary.fqdn}"},
		Promote:     &plan.Action{Name: "promote", Command: []string{"redis-cli", "replicaof", "no", "one"}},
		Follow: &plan.Action{Name: "follow",
			Command:    []string{"redis-cli", "replicaof", "${parameters.primary}", "6379"},
			Parameters: map[string]string{"primary": "string"}},
	}
	return p
}

func TestRolesHaveTheirArguments(t *testing.T) {
	d := pod(t)
	p, err := d.Parse(encode(t, fenced(d)))
	if err != nil {
		t.Fatal(err)
	}
	here, err := d.Expand(p)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"--name", "redis-orders-2"}; !slices.Equal(here.Writing.PrimaryArgs, want) {
		t.Errorf("the primary has %q, want %q", here.Writing.PrimaryArgs, want)
	}
	got, err := d.ReplicaArgs(here, "redis-orders-0")
	if want := []string{"--replicaof", "redis-orders-0.redis-orders.shop.svc 6379", "${primary.fqdn}"}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("a follower has %q, %v; want %q", got, err, want)
	}
}

func TestWritingThatCannotBeKeptIsRefused(t *testing.T) {
	for part, spoil := range map[string]func(*plan.Plan){
		"is none of the set":             func(p *plan.Plan) { p.Writing.Set = "redis-other" },
		`none of the set ""`:             func(p *plan.Plan) { p.Writing.Set = "" },
		"set process.dir":                func(p *plan.Plan) { p.Process.Dir = "" },
		"the plan has no domain":         func(p *plan.Plan) { p.Domain = "" },
		"replicaArgs: \"${primary.ip}\"": func(p *plan.Plan) { p.Writing.ReplicaArgs = []string{"${primary.ip}"} },
		"\"${primary.fqdn}\" is unknown": func(p *plan.Plan) { p.Writing.PrimaryArgs = []string{"${primary.fqdn}"} },
		"judges it by its exit code":     func(p *plan.Plan) { p.Writing.Promote.Success = "true" },
		"neither success nor outputs": func(p *plan.Plan) {
			p.Writing.Follow.Outputs = map[string]string{"a": "stdout"}
		},
		"promote: parameter \"primary\"": func(p *plan.Plan) {
			p.Writing.Promote.Parameters = map[string]string{"primary": "string"}
		},
		"follow: parameter \"other\"":          func(p *plan.Plan) { p.Writing.Follow.Parameters["other"] = "string" },
		"follow: ${parameters.primary} stands": func(p *plan.Plan) { p.Writing.Follow.Parameters = nil },
		"promote: the command is empty":        func(p *plan.Plan) { p.Writing.Promote.Command = nil },
		"has a NUL byte":                       func(p *plan.Plan) { p.Writing.PrimaryArgs = []string{"a\x00"} },
	} {
		d := pod(t)
		p := fenced(d)
		spoil(p)
		if _, err := d.Parse(encode(t, p)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want an error with %q", err, part)
		}
	}
}

// TestWritingComesWithTheMountedPlan, whatever plan the process was started with.
func TestWritingComesWithTheMountedPlan(t *testing.T) {
	d := pod(t)
	before, err := d.Prepare(valid(d, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Writing(before); got != nil {
		t.Errorf("nobody said so, and writing is %v", got.Writing)
	}
	write(t, d.MountedPath(), string(encode(t, fenced(d))))
	if got := d.Writing(before); got == nil || got.Writing.PrimaryArgs[1] != "redis-orders-2" {
		t.Errorf("got %v", got)
	}
	changed := fenced(d)
	changed.Writing.PrimaryArgs = []string{"pushed"}
	started, err := d.Prepare(changed)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Writing(started); got.Writing.PrimaryArgs[0] != "--name" {
		t.Errorf("got %v, want what is mounted", got.Writing.PrimaryArgs)
	}
	write(t, d.MountedPath(), "broken")
	if got := d.Writing(started); got.Writing.PrimaryArgs[0] != "pushed" {
		t.Errorf("got %v, want what was started", got.Writing.PrimaryArgs)
	}
}

// TestWritingComesWithThePushedPlan until the kubelet has mounted what came since, also where that is nothing but an
// action.
func TestWritingComesWithThePushedPlan(t *testing.T) {
	d := pod(t)
	says := func(want string) {
		t.Helper()
		prepared, err := d.Prepare(fenced(d))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Writing(prepared).Writing.Promote.Command[1]; got != want {
			t.Errorf("the action is %q, want %q", got, want)
		}
	}
	now := fenced(d)
	mount(t, d, now)
	says("replicaof")
	now.Writing.Promote.Command[1] = "pushed"
	if err := d.Push(now); err != nil {
		t.Fatal(err)
	}
	says("pushed")
	now.Writing.Promote.Command[1] = "mounted"
	mount(t, d, now)
	says("mounted")
}
