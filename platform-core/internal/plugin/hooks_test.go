// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// hooked is the process of the redis plugin with what is put into its hooks.
func hooked(hooks string) string { return "dir: /data\n      hooks: " + hooks + "\n      stop" }

func TestBrokenHooks(t *testing.T) {
	c := func(hooks, at, says string) broken {
		return broken{part: PartComponents, key: components, old: "dir: /data\n      stop", new: hooked(hooks), at: at,
			says: says}
	}
	run(t, map[string]broken{
		"none":                c("{}", "hooks: {}", "has no hook: name one of preStart, postStart and preStop"),
		"unknown point":       c("{preRun: {command: [a]}}", "preRun", `process.hooks.preRun" is not known`),
		"no command":          c("{preStart: {timeoutSeconds: 1}}", "{timeoutSeconds", "preStart.command is missing"),
		"command is empty":    c("{preStart: {command: []}}", "hooks:", "a command and its arguments, at least one"),
		"no time":             c("{postStart: {command: [a], timeoutSeconds: 0}}", "hooks:", "timeoutSeconds"),
		"longer than an hour": c("{preStop: {command: [a], timeoutSeconds: 3601}}", "hooks:", "timeoutSeconds"),
		"unknown credential": c("{preStop: {command: [a], env: [{name: A, secret: {credential: admin, key: password}}]}}",
			"hooks:", `names the credential of this component "admin"`),
		"variable twice": c("{postStart: {command: [a], env: [{name: A, value: b}, {name: A, value: c}]}}", "hooks:",
			"names must differ"),
		"unknown in a formula": c("{preStart: {command: ['${app.colour}']}}", "hooks:", "undefined field 'colour'"),
		"the pod in a text":    c("{preStart: {command: ['${pod.name + app.name}']}}", "hooks:", "pod"),
		"condition is no truth": c("{preStart: {command: [a], env: [{name: A, value: b, when: app.name}]}}", "hooks:",
			"must give true or false"),
	})
}

// What a plugin says of hooks is in the plan, with what is known filled in; of one that says nothing there is nothing.
func TestHooksInAPlan(t *testing.T) {
	b := loadRedis(t)
	c, _ := b.Component("redis")
	p, err := b.RenderPlan("redis", sampleValues(c, "standalone", "7.0", 0))
	if err != nil || p.Process.Hooks != nil {
		t.Fatalf("the hooks are %+v, %v", p.Process.Hooks, err)
	}
	sources := redisSources(t)
	edit(t, sources, PartComponents, components, "dir: /data\n      stop",
		hooked("{preStart: {command: [check, '${app.name}', '${pod.name}']}, preStop: {command: [drain], timeoutSeconds: "+
			"3, env: ["+
			"{name: USER, secret: {credential: default, key: username}}, {name: PASSWORD, secret: {credential: default, key: "+
			"password}}, {name: TLS, value: 'yes', when: app.tls}]}}"))
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	values := sampleValues(c, "standalone", "7.0", 0)
	values.App.TLS = false
	p, err = b.RenderPlan("redis", values)
	if err != nil {
		t.Fatal(err)
	}
	hooks := p.Process.Hooks.At()
	if start := hooks[plan.PreStart]; len(hooks) != 2 ||
		!slices.Equal(start.Command, []string{"check", values.App.Name, "${pod.name}"}) {
		t.Errorf("the hooks are %+v", hooks)
	}
	stop := hooks[plan.PreStop]
	if len(stop.Env) != 2 || stop.Env[0].Secret != nil || stop.Env[0].Value != "default" || stop.Env[1].Secret == nil ||
		stop.TimeoutSeconds != 3 {
		t.Errorf("the hook before a stop is %+v", stop)
	}
}
