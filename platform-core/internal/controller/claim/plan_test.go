// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func application() *platformv1.Application {
	return &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1},
		Spec:       platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "1.0.0"},
	}
}

// published is a Plugin object; operator is the domain of the operator that wrote it.
func published(name, version, domain, operator string) platformv1.Plugin {
	p := platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + version},
		Spec: platformv1.PluginSpec{Plugin: name, Version: version, Domain: domain}}
	if operator != "" {
		p.Labels = map[string]string{platformv1.DomainLabel: operator}
	}
	return p
}

func TestJudge(t *testing.T) {
	loaded := func(domain string) *plugin.Index {
		index := plugin.NewIndex()
		index.Set("redis", "1.0.0", &plugin.Bundle{
			Manifest: plugin.Manifest{Name: "redis", Version: "1.0.0", Domain: domain}}, nil)
		return index
	}
	refused := plugin.NewIndex()
	refused.Set("redis", "1.0.0", nil, []plugin.LoadError{{Message: "broken"}})
	for name, tc := range map[string]struct {
		index     *plugin.Index
		published []platformv1.Plugin
		age       time.Duration
		action    action
		after     time.Duration
		reason    string
		text      string
	}{
		"ours by the index": {index: loaded("database"), action: actClaim},
		"ours by the published plugin": {published: []platformv1.Plugin{published("redis", "1.0.0", "database", "")},
			action: actClaim},
		"ours and refused": {index: refused,
			published: []platformv1.Plugin{published("redis", "1.0.0", "", "database")}, action: actClaim},
		"in the index, of another domain": {index: loaded("message"),
			published: []platformv1.Plugin{published("redis", "1.0.0", "message", "message")}, action: actWait,
			after: 30 * time.Second},
		"of another domain for long": {published: []platformv1.Plugin{published("redis", "1.0.0", "message", "message")},
			age: time.Minute, action: actReport,
			reason: platformv1.ReasonPluginNotFound, text: `of domain "message", and no operator`},
		"unknown and new":       {age: time.Second, action: actWait, after: 2 * time.Second},
		"unknown, clock behind": {age: -time.Hour, action: actWait, after: 3 * time.Second},
		"nothing known": {age: 3 * time.Second, action: actReport, reason: platformv1.ReasonPluginNotFound,
			text: "no plugin is known"},
		"other version known": {published: []platformv1.Plugin{published("redis", "1.2.0", "database", ""),
			published("redis", "1.1.0", "database", "")}, age: 3 * time.Second, action: actReport,
			reason: platformv1.ReasonPluginNotFound,
			text:   `no operator has plugin "redis" version "1.0.0": known versions are 1.1.0, 1.2.0`},
		"other plugins known": {published: []platformv1.Plugin{published("kafka", "1.0.0", "message", ""),
			published("kafka", "2.0.0", "message", "")}, age: 3 * time.Second, action: actReport,
			reason: platformv1.ReasonPluginNotFound, text: "known plugins are kafka"},
		"refused, domain unknown": {published: []platformv1.Plugin{published("redis", "1.0.0", "", "")}, age: 3 * time.Second,
			action: actReport,
			reason: platformv1.ReasonPluginInvalid, text: "kubectl describe plugin redis-1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			index := tc.index
			if index == nil {
				index = plugin.NewIndex()
			}
			v := judge(application(), "database", index, tc.published, tc.age)
			if v.action != tc.action || v.after != tc.after || v.problem.Reason() != tc.reason ||
				!strings.Contains(v.problem.Message(), tc.text) {
				t.Errorf("%s after %s, %s: %s", v.action, v.after, v.problem.Reason(), v.problem.Message())
			}
		})
	}
}

func TestSaidComparesFactsAndNotWords(t *testing.T) {
	v := verdict{problem: outcome.Stalled(platformv1.ReasonPluginNotFound, "no such plugin, there are 1.1.0, 1.2.0"),
		mentions: []string{"1.1.0", "1.2.0"}}
	app := application()
	if said(app, v) {
		t.Error("said before anything was")
	}
	set := func(reason, message string) {
		conditions.Set(app, metav1.Condition{Type: platformv1.AcceptedCondition, Status: metav1.ConditionFalse,
			Reason: reason, Message: message})
	}
	set(platformv1.ReasonPluginNotFound, "another release says it so: 1.2.0 and 1.1.0")
	if !said(app, v) {
		t.Error("the same facts in other words are written over")
	}
	set(platformv1.ReasonPluginNotFound, "there is 1.1.0")
	if said(app, v) {
		t.Error("a version that has come is not told of")
	}
	set(platformv1.ReasonPluginInvalid, "1.1.0 1.2.0")
	if said(app, v) {
		t.Error("another reason is not told of")
	}
	set(platformv1.ReasonPluginNotFound, "1.1.0 1.2.0")
	app.Generation = 2
	if said(app, v) {
		t.Error("another generation is not told of")
	}
}
