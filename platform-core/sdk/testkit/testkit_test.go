// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

type numbers struct {
	Add []int `json:"add"`
}

func TestGolden(t *testing.T) {
	Golden(t, "testdata/golden", func(in numbers) (any, error) {
		if len(in.Add) == 0 {
			return nil, errors.New("nothing to add")
		}
		sum := 0
		for _, n := range in.Add {
			sum += n
		}
		return map[string]int{"sum": sum}, nil
	})
}

func TestDifference(t *testing.T) {
	if got, want := difference("a\nb\nc\n", "a\nx\ny\nc\n"), "- b\n+ x\n+ y\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// healthy returns an object whose status keeps all rules, at generation 2.
func healthy() *platformv1.Application {
	app := BuildApplication("ns", "a").Build()
	app.Generation = 2
	app.Status.ObservedGeneration = 2
	app.Status.Conditions = []metav1.Condition{
		condition(platformv1.AcceptedCondition, metav1.ConditionTrue, platformv1.ReasonAccepted, "the plugin is loaded"),
		condition(platformv1.ReadyCondition, metav1.ConditionTrue, platformv1.ReasonReady, ""),
	}
	return app
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message,
		ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}
}

func TestStatusLintPassesAGoodStatus(t *testing.T) {
	if err := StatusLint(healthy()); err != nil {
		t.Error(err)
	}
	waiting := healthy()
	waiting.Status.Conditions = []metav1.Condition{
		condition("Ready", "False", "PodsNotReady", `1 of 3 pods of "redis-a" are ready`),
		condition("Reconciling", "True", "PodsNotReady", `1 of 3 pods of "redis-a" are ready`),
	}
	if err := StatusLint(waiting); err != nil {
		t.Error(err)
	}
	const window = "waits for the maintenance window, next 2026-11-22T02:00+01:00 (Europe/Berlin): pod a-0 is to be " +
		"replaced"
	waiting.Status.Conditions = []metav1.Condition{
		condition("Ready", "False", platformv1.ReasonWaitingForMaintenance, window),
		condition("Reconciling", "True", platformv1.ReasonWaitingForMaintenance, window),
	}
	if err := StatusLint(waiting); err != nil {
		t.Error(err)
	}
}

// Each rule is broken once, and StatusLint names it.
func TestStatusLintNamesTheRule(t *testing.T) {
	set := func(conditions ...metav1.Condition) func(*platformv1.Application) {
		return func(a *platformv1.Application) { a.Status.Conditions = conditions }
	}
	ready := condition("Ready", "True", "Ready", "")
	notReady := condition("Ready", "False", "PodsNotReady", "pods start")
	reconciling := condition("Reconciling", "True", "PodsNotReady", "pods start")
	stalled := condition("Stalled", "True", "InvalidSpec", "mend it")
	message := func(text string) func(*platformv1.Application) {
		return func(a *platformv1.Application) { a.Status.Conditions[0].Message = text }
	}
	tests := map[string]struct {
		rule  string
		spoil func(*platformv1.Application)
	}{
		"no Ready":                {"rule 1:", set()},
		"reconciling and stalled": {"rule 2:", set(notReady, reconciling, stalled)},
		"ready and reconciling":   {"rule 3:", set(ready, reconciling)},
		"ready and stalled":       {"rule 3:", set(ready, stalled)},
		"ready and not accepted": {"rule 4:",
			set(condition("Accepted", "False", "PluginNotFound", "it is absent"), ready)},
		"stalled False": {"rule 5:", set(ready, condition("Stalled", "False", "Ready", ""))},
		"a reason with a blank": {"rule 6:",
			func(a *platformv1.Application) { a.Status.Conditions[0].Reason = "Not ready" }},
		"no reason":                   {"rule 6:", func(a *platformv1.Application) { a.Status.Conditions[0].Reason = "" }},
		"two lines":                   {"rule 7:", message("one\ntwo")},
		"two sentences":               {"rule 7:", message("It is bad. Mend it")},
		"a blank at the end":          {"rule 7:", message("it is bad ")},
		"a date":                      {"rule 8:", message("failed on 2026-01-02")},
		"a time":                      {"rule 8:", message("failed at 12:13:14")},
		"not ready without a message": {"rule 9:", set(condition("Ready", "False", "PodsNotReady", ""), reconciling)},
		"not ready and nothing else":  {"rule 10:", set(notReady)},
		"a later generation":          {"rule 11:", func(a *platformv1.Application) { a.Generation = 1 }},
		"no observedGeneration":       {"rule 11:", func(a *platformv1.Application) { a.Status.ObservedGeneration = 0 }},
		"a condition of no generation": {"rule 11:",
			func(a *platformv1.Application) { a.Status.Conditions[0].ObservedGeneration = 0 }},
		"another order":     {"rule 12:", set(reconciling, notReady)},
		"a condition twice": {"rule 12:", set(ready, ready)},
		"a condition without a time": {"rule 13:",
			func(a *platformv1.Application) { a.Status.Conditions[0].LastTransitionTime = metav1.Time{} }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := healthy()
			test.spoil(app)
			err := StatusLint(app)
			if err == nil || !strings.Contains(err.Error(), test.rule) {
				t.Errorf("got %v, want %s", err, test.rule)
			}
		})
	}
}

func TestAssetsThatAreMissingAreAnError(t *testing.T) {
	t.Setenv(assetsVariable, t.TempDir())
	if _, err := Start(EnvOptions{}); err == nil || !strings.Contains(err.Error(), "kube-apiserver") {
		t.Errorf("with an empty folder: %v", err)
	}
	t.Setenv(assetsVariable, "")
	t.Setenv("PATH", t.TempDir())
	if _, err := Start(EnvOptions{}); err == nil || !strings.Contains(err.Error(), assetsVariable) {
		t.Errorf("with nothing: %v", err)
	}
}

func TestApplicationBuilder(t *testing.T) {
	b := BuildApplication("ns", "a").Domain("database").Component("redis", 3).Storage("1Gi").Resources("100m", "64Mi").
		Parameter("maxmemory", "1")
	first, second := b.Build(), b.Version("7.2").Build()
	if first.Spec.Version != "7.0" || second.Spec.Version != "7.2" {
		t.Errorf("versions are %q and %q", first.Spec.Version, second.Spec.Version)
	}
	c := first.Spec.Components[0]
	if *c.Replicas != 3 || c.Storage.Size.String() != "1Gi" || c.Parameters["maxmemory"] != "1" ||
		first.Labels[platformv1.DomainLabel] != "database" {
		t.Errorf("built %+v", first)
	}
}
