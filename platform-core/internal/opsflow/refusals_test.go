// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// able is a bundle of four components: one that can do nothing, one that reloads and is verified, one whose primary
// hands over, and one whose primary the engine names.
func able() *plugin.Bundle {
	b := bundle()
	b.Components.Components = []schema.Component{
		{Name: "plain"},
		{Name: "reloads", Process: plan.Process{Reload: &plan.Reload{}},
			Backups: []schema.BackupMethod{{Name: "dump", Verify: &schema.VerifyMethod{}}}},
		{Name: "yields", Switchover: &schema.Switchover{}, Backups: []schema.BackupMethod{{Name: "copy"}}},
		{Name: "fails", Failover: &schema.Failover{}},
	}
	b.Operations[rebuildMine] = optemplate.Template{Name: rebuildMine}
	return b
}

// rebuildMine names a template that the plugin of these tests brings itself.
const rebuildMine = "RebuildMine"

// What the plugin of a target cannot do is refused before a step of it begins, in words that say of what it cannot.
func TestSupported(t *testing.T) {
	agent := func(call optemplate.AgentCall) optemplate.Template {
		return optemplate.Template{Name: string(call),
			Steps: []optemplate.Step{{Name: "call", Agent: &optemplate.AgentStep{Call: call}}}}
	}
	engine := func(verb optemplate.EngineVerb) optemplate.Template {
		return optemplate.Template{Name: "RebuildMember",
			Steps: []optemplate.Step{{Name: "do", Engine: &optemplate.EngineStep{Do: verb}}}}
	}
	mine := engine(optemplate.EngineRebuild)
	mine.Name = rebuildMine
	some := agent(optemplate.AgentReload)
	some.Targets = []string{"reloads"}
	for name, tc := range map[string]struct {
		template   optemplate.Template
		components []string
		component  string
		text       string
	}{
		"reload":                        {template: agent(optemplate.AgentReload), components: []string{"reloads"}},
		"reload beside one that cannot": {template: agent(optemplate.AgentReload), components: []string{"reloads", "plain"}},
		"reload of the one that cannot": {template: agent(optemplate.AgentReload), components: []string{"reloads", "plain"},
			component: "plain",
			text:      `component "plain" of plugin "redis" cannot reload: use the template Restart`},
		"reload of some that cannot": {template: agent(optemplate.AgentReload), components: []string{"yields", "plain"},
			text: `component "yields" of plugin "redis" cannot reload: use the template Restart`},
		"reload of the one that can": {template: agent(optemplate.AgentReload), components: []string{"reloads", "plain"},
			component: "reloads"},
		"reload of its targets":         {template: some, components: []string{"reloads", "plain"}},
		"restart of what cannot reload": {template: agent(optemplate.AgentRestart), components: []string{"plain"}},
		"switchover": {template: engine(optemplate.EngineSwitchover),
			components: []string{"plain", "yields"}},
		"switchover to a named one": {template: engine(optemplate.EngineSwitchover), components: []string{"fails"}},
		"switchover of nobody": {template: engine(optemplate.EngineSwitchover), components: []string{"plain", "reloads"},
			text: `plugin "redis" declares no switchover for "plain", "reloads"`},
		"switchover of another": {template: engine(optemplate.EngineSwitchover), components: []string{"plain", "yields"},
			component: "plain",
			text:      `declares no switchover for "plain"`},
		"failover": {template: engine(optemplate.EngineFailover), components: []string{"plain", "fails"}},
		"failover where members elect": {template: engine(optemplate.EngineFailover), components: []string{"yields"},
			text: `plugin "redis" declares no failover for "yields": its members elect a primary themselves, or there is none`},
		"failover of what is unknown": {template: engine(optemplate.EngineFailover), components: []string{"gone"},
			text: `declares no failover for "gone"`},
		"backup": {template: engine(optemplate.EngineBackup), components: []string{"plain", "yields"}},
		"backup of what has no method": {template: engine(optemplate.EngineBackup), components: []string{"plain", "fails"},
			text: `plugin "redis" version "1.0.0" does not say how data of "plain", "fails" is backed up: bring the instance ` +
				`to a later version`},
		"drill": {template: engine(optemplate.EngineDrill), components: []string{"plain", "reloads"}},
		"drill of what nobody verifies": {template: engine(optemplate.EngineDrill), components: []string{"yields"},
			text: `plugin "redis" version "1.0.0" does not say how data of "yields" that was restored is verified, so that no ` +
				`drill is possible: bring the instance to a later version`},
		"rebuild": {template: engine(optemplate.EngineRebuild), components: []string{"fails"}},
		"rebuild where members elect": {template: engine(optemplate.EngineRebuild), components: []string{"yields"},
			text: `plugin "redis" does not say how a member of "yields" is made anew: its members elect a primary themselves`},
		"rebuild of the plugin": {template: mine, components: []string{"yields"}},
		"nothing to act on":     {template: engine(optemplate.EngineSwitchover), text: "declares no switchover for none"},
	} {
		t.Run(name, func(t *testing.T) {
			reason := ""
			if tc.text != "" {
				reason = ReasonNotSupported
			}
			expect(t, Supported(tc.template, able(), tc.components, tc.component), reason, tc.text)
		})
	}
}

func TestCheckOfARetry(t *testing.T) {
	for backoff, text := range map[time.Duration]string{
		0:               "retry.backoff 0s is not allowed: it must be greater than 0",
		-time.Second:    "retry.backoff -1s is not allowed: it must be greater than 0",
		time.Nanosecond: "",
	} {
		reason := ""
		if text != "" {
			reason = platformv1.ReasonInvalidSpec
		}
		op := &platformv1.Operation{Spec: platformv1.OperationSpec{
			Retry: &platformv1.OperationRetry{Limit: 1, Backoff: &metav1.Duration{Duration: backoff}}}}
		expect(t, Check(op, Target{}, "", restartTemplate()), reason, text)
	}
	op := &platformv1.Operation{Spec: platformv1.OperationSpec{Retry: &platformv1.OperationRetry{Limit: 1}}}
	expect(t, Check(op, Target{}, "", restartTemplate()), "", "")
}

// Exit codes are those of containers: a run without one that the retry of the Operation is for has none.
func TestCheckOfExitCodes(t *testing.T) {
	const wrong = "retry.exitCodes are those of containers"
	for text, want := range map[string]string{
		"{name: a, container: {image: i}}":                                          "",
		"{name: a, script: {image: i, source: 'true'}}":                             "",
		"{name: a, http: {url: 'https://a'}}":                                       wrong,
		"{name: a, http: {url: 'https://a'}}\n  - {name: b, container: {image: i}}": "",
		"{name: a, retry: {limit: 1}, container: {image: i}}":                       wrong,
	} {
		op := &platformv1.Operation{Spec: platformv1.OperationSpec{ServiceAccountName: "worker",
			Template: "name: A\nsteps:\n  - " + text + "\n",
			Retry:    &platformv1.OperationRetry{Limit: 1, ExitCodes: []int32{7}}}}
		template, refusal := InlineTemplate(op.Spec)
		if refusal != nil {
			t.Fatal(refusal)
		}
		reason := ""
		if want != "" {
			reason = platformv1.ReasonInvalidSpec
		}
		expect(t, CheckInline(op, template), reason, want)
		op.Spec.Retry.ExitCodes, op.Spec.Retry.ExceptExitCodes = nil, []int32{7}
		expect(t, CheckInline(op, template), reason, strings.Replace(want, "exitCodes", "exceptExitCodes", 1))
		op.Spec.Retry.ExceptExitCodes = nil
		expect(t, CheckInline(op, template), "", "")
	}
	op := &platformv1.Operation{Spec: platformv1.OperationSpec{
		Retry: &platformv1.OperationRetry{Limit: 1, ExitCodes: []int32{7}}}}
	expect(t, Check(op, Target{}, "", restartTemplate()), platformv1.ReasonInvalidSpec, wrong)
}

// What is between two attempts doubles up to 5m, from what the step's own retry says, else from that of the Operation;
// one that is longer from the start stays as it is.
func TestBackoff(t *testing.T) {
	asked := func(backoff time.Duration) *platformv1.OperationRetry {
		return &platformv1.OperationRetry{Limit: 9, Backoff: &metav1.Duration{Duration: backoff}}
	}
	for name, tc := range map[string]struct {
		step *optemplate.StepRetry
		op   *platformv1.OperationRetry
		want []time.Duration
	}{
		"nobody says anything": {nil, nil, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}},
		"only how often": {nil, &platformv1.OperationRetry{Limit: 9},
			[]time.Duration{5 * time.Second, 10 * time.Second}},
		"the Operation": {nil, asked(time.Minute),
			[]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute}},
		"both": {&optemplate.StepRetry{Limit: 1, Backoff: "3s"}, asked(time.Minute),
			[]time.Duration{3 * time.Second, 6 * time.Second, 12 * time.Second}},
		"the step only how often": {&optemplate.StepRetry{Limit: 1}, asked(time.Minute),
			[]time.Duration{5 * time.Second, 10 * time.Second}},
		"as long as it gets": {nil, asked(5 * time.Minute), []time.Duration{5 * time.Minute, 5 * time.Minute}},
		"longer":             {nil, asked(time.Hour), []time.Duration{time.Hour, time.Hour, time.Hour}},
		"longer, by the step": {&optemplate.StepRetry{Limit: 1, Backoff: "10m"}, nil,
			[]time.Duration{10 * time.Minute, 10 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{op: &platformv1.Operation{Spec: platformv1.OperationSpec{Retry: tc.op}}}
			for i, want := range tc.want {
				if got := r.backoff(&optemplate.Step{Retry: tc.step}, int32(i+1)); got != want {
					t.Errorf("after attempt %d it waits %s, want %s", i+1, got, want)
				}
			}
		})
	}
	r := &run{op: &platformv1.Operation{}}
	if got := r.backoff(&optemplate.Step{}, 1<<30); got != longestBackoff {
		t.Errorf("after very many attempts it waits %s", got)
	}
}

// Only what failed or was cancelled can be tried again, with the same template, target and parameters.
func TestRetryableOfAnotherRun(t *testing.T) {
	at := metav1.NewTime(epoch)
	earlier := func(phase platformv1.OperationPhase, change func(*platformv1.OperationSpec)) *platformv1.Operation {
		op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "first"},
			Status: platformv1.OperationStatus{Phase: phase, CompletionTime: &at}}
		if change != nil {
			change(&op.Spec)
		}
		return op
	}
	other := "another template, target or parameters: what succeeded there says nothing here"
	for name, tc := range map[string]struct {
		earlier *platformv1.Operation
		text    string
	}{
		"failed":    {earlier(platformv1.OperationFailed, nil), ""},
		"cancelled": {earlier(platformv1.OperationCancelled, nil), ""},
		"succeeded": {earlier(platformv1.OperationSucceeded, nil),
			`retryOf names Operation "first", which is Succeeded: only one that failed or was cancelled can be tried again`},
		"running": {earlier(platformv1.OperationRunning, nil), "which is Running: only one that"},
		"other template": {earlier(platformv1.OperationFailed,
			func(s *platformv1.OperationSpec) { s.TemplateRef = "Stop" }), other},
		"other target": {earlier(platformv1.OperationFailed,
			func(s *platformv1.OperationSpec) { s.TargetRef.Name = "b" }), other},
		"other parameters": {earlier(platformv1.OperationFailed,
			func(s *platformv1.OperationSpec) { s.Parameters = platformv1.Parameters{"a": "1"} }), other},
	} {
		t.Run(name, func(t *testing.T) {
			reason := ""
			if tc.text != "" {
				reason = platformv1.ReasonInvalidSpec
			}
			expect(t, Retryable(&platformv1.Operation{}, tc.earlier, Facts{Template: restartTemplate()}), reason, tc.text)
		})
	}
}
