// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

func bundle() *plugin.Bundle {
	return &plugin.Bundle{
		Manifest: plugin.Manifest{Name: "redis", Version: "1.0.0", Domain: "database"},
		Operations: map[string]optemplate.Template{"Restart": restartTemplate(),
			"Odd": {Name: "Odd", Steps: []optemplate.Step{{Name: "x"}}}, "Empty": {Name: "Empty"}},
		Digest: "sha256:1",
	}
}

// expect checks that a refusal has a reason and holds a text, or that there is none when reason is empty.
func expect(t *testing.T, got *Refusal, reason, text string) {
	t.Helper()
	switch {
	case reason == "" && got != nil:
		t.Errorf("refused: %s", got.Message)
	case reason != "" && got == nil:
		t.Errorf("not refused, want %s", reason)
	case reason != "" && (got.Reason != reason || !strings.Contains(got.Message, text)):
		t.Errorf("refused with %s: %s; want %s: …%s…", got.Reason, got.Message, reason, text)
	}
}

func TestFindTemplate(t *testing.T) {
	for ref, want := range map[string][2]string{
		"Restart":             {},
		"redis@1.0.0/Restart": {},
		"redis@1.0.1/Restart": {platformv1.ReasonTemplateNotFound, `write "redis@1.0.0/Restart" or just "Restart"`},
		"kafka@1.0.0/Restart": {platformv1.ReasonTemplateNotFound, "another plugin"},
		"Explode":             {platformv1.ReasonTemplateNotFound, `it has: "Apply", "Backup", "Create", "Delete", "Empty"`},
		"redis@1.0.0/Explode": {platformv1.ReasonTemplateNotFound, `no Operation template "Explode"`},
		"redis@1.0.0/Delete":  {platformv1.ReasonTemplateNotFound, `is the engine's and no plugin's: write "Delete"`},
		"redis@1.0.0/Create":  {platformv1.ReasonTemplateNotFound, `write "Create"`},
		"Odd":                 {platformv1.ReasonPluginInvalid, "does not know"},
		"Empty":               {platformv1.ReasonPluginInvalid, "no steps"},
	} {
		t.Run(ref, func(t *testing.T) {
			template, refusal := FindTemplate(platformv1.OperationSpec{TemplateRef: ref}, bundle())
			expect(t, refusal, want[0], want[1])
			if refusal == nil && template.Name != "Restart" {
				t.Errorf("found template %q", template.Name)
			}
		})
	}
}

func TestBundleOf(t *testing.T) {
	pinned := platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:1"}
	changed := pinned
	changed.Digest = "sha256:2"
	for name, tc := range map[string]struct {
		pinned platformv1.PluginReference
		state  plugin.State
		known  Knowledge
		reason string
	}{
		"loaded":  {pinned, plugin.State{Bundle: bundle()}, Known, ""},
		"missing": {pinned, plugin.State{}, Unknown, platformv1.ReasonPluginMissing},
		"refused": {pinned, plugin.State{}, Known, platformv1.ReasonPluginInvalid},
		"changed": {changed, plugin.State{Bundle: bundle()}, Known, platformv1.ReasonPluginChanged},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := BundleOf(tc.pinned, tc.state, tc.known)
			expect(t, refusal, tc.reason, `"redis"`)
		})
	}
}

func TestCheck(t *testing.T) {
	restricted := restartTemplate()
	restricted.Targets = []string{"redis"}
	target := Target{Kind: TargetComponent, ObjectKind: "Component", Name: "redis-a-sentinel"}
	for name, tc := range map[string]struct {
		spec      platformv1.OperationSpec
		component string
		reason    string
		text      string
	}{
		"plain": {},
		"parameters": {spec: platformv1.OperationSpec{Parameters: platformv1.Parameters{"b": "1", "a": "2"}},
			reason: platformv1.ReasonInvalidParameters, text: `has no parameter "a": it takes none`},
		"no time": {spec: platformv1.OperationSpec{Timeout: &metav1.Duration{}}, reason: platformv1.ReasonInvalidSpec,
			text: "greater than 0"},
		"negative time": {spec: platformv1.OperationSpec{Timeout: &metav1.Duration{Duration: -time.Second}},
			reason: platformv1.ReasonInvalidSpec, text: "timeout -1s"},
		"right component": {component: "redis"},
		"wrong component": {component: "sentinel", reason: platformv1.ReasonInvalidSpec, text: `it can act on: "redis"`},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, Check(&platformv1.Operation{Spec: tc.spec}, target, tc.component, restricted), tc.reason, tc.text)
		})
	}
}

func TestCheckOfAnAccount(t *testing.T) {
	op := &platformv1.Operation{Spec: platformv1.OperationSpec{ServiceAccountName: "deployer"}}
	expect(t, Check(op, Target{}, "", restartTemplate()), platformv1.ReasonInvalidSpec, "has no step that writes objects")
	op.OwnerReferences = []metav1.OwnerReference{{Kind: "Operation", Name: "parent", UID: "1", Controller: new(true)}}
	expect(t, Check(op, Target{}, "", restartTemplate()), "", "")
}

func TestParseTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		apiVersion, kind string
		want             TargetKind
		application      string
	}{
		"application":   {"platform.zeroinfra.github.com/v1", "Application", TargetApplication, "a"},
		"component":     {"platform.zeroinfra.github.com/v1", "Component", TargetComponent, ""},
		"set":           {"platform.zeroinfra.github.com/v1", "WorkloadSet", TargetWorkloadSet, ""},
		"typed":         {"database.zeroinfra.github.com/v1", "Redis", TargetTyped, "redis-a"},
		"operation":     {"platform.zeroinfra.github.com/v1", "Operation", "", ""},
		"other version": {"platform.zeroinfra.github.com/v2", "Application", "", ""},
		"core object":   {"v1", "Pod", "", ""},
		"nonsense":      {"a/b/c", "Redis", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			target, refusal := ParseTarget(platformv1.TargetReference{APIVersion: tc.apiVersion, Kind: tc.kind, Name: "a"})
			if tc.want == "" {
				expect(t, refusal, platformv1.ReasonTargetNotFound, tc.apiVersion)
				return
			}
			expect(t, refusal, "", "")
			if target.Kind != tc.want || target.Application != tc.application {
				t.Errorf("got %+v", target)
			}
		})
	}
}

func TestOwns(t *testing.T) {
	controller := true
	target := Target{Kind: TargetTyped, Group: "database.zeroinfra.github.com", ObjectKind: "Redis", Name: "a",
		Application: "redis-a"}
	app := func(apiVersion, kind, name string) *platformv1.Application {
		return &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "redis-a",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: apiVersion, Kind: kind, Name: name, UID: "1", Controller: &controller}}}}
	}
	for name, tc := range map[string]struct {
		app  *platformv1.Application
		owns bool
	}{
		"its own":       {app("database.zeroinfra.github.com/v1", "Redis", "a"), true},
		"other version": {app("database.zeroinfra.github.com/v2", "Redis", "a"), true},
		"other group":   {app("example.com/v1", "Redis", "a"), false},
		"other kind":    {app("database.zeroinfra.github.com/v1", "Valkey", "a"), false},
		"other name":    {app("database.zeroinfra.github.com/v1", "Redis", "b"), false},
		"nobody's":      {&platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "redis-a"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := target.Owns(tc.app); got != tc.owns {
				t.Errorf("Owns is %t", got)
			}
		})
	}
}

func TestAhead(t *testing.T) {
	op := func(name string, minute int, phase platformv1.OperationPhase) *platformv1.Operation {
		return &platformv1.Operation{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
				CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(minute) * time.Minute))},
			Status: platformv1.OperationStatus{Phase: phase},
		}
	}
	deleted := op("deleted", 0, platformv1.OperationRunning)
	now := metav1.NewTime(epoch)
	deleted.DeletionTimestamp = &now
	all := []*platformv1.Operation{
		op("old-and-done", 0, platformv1.OperationSucceeded), op("old-and-failed", 0, platformv1.OperationFailed), deleted,
		op("b", 1, platformv1.OperationPending), op("a", 1, ""), op("late-but-running", 5, platformv1.OperationRunning),
	}
	ahead := func(name string) string {
		for _, candidate := range all {
			if candidate.Name == name {
				if first := (Queue{Operations: all}).Ahead(candidate); first != nil {
					return first.Name
				}
			}
		}
		return ""
	}
	for name, want := range map[string]string{"a": "late-but-running", "b": "late-but-running", "late-but-running": ""} {
		if got := ahead(name); got != want {
			t.Errorf("ahead of %s is %q, want %q", name, got, want)
		}
	}
	all = all[:5]
	for name, want := range map[string]string{"a": "", "b": "a"} {
		if got := ahead(name); got != want {
			t.Errorf("ahead of %s is %q, want %q", name, got, want)
		}
	}
}

func TestExpiry(t *testing.T) {
	ttl, at := int32(60), metav1.NewTime(epoch)
	done := &platformv1.Operation{Spec: platformv1.OperationSpec{TTLSecondsAfterFinished: &ttl},
		Status: platformv1.OperationStatus{Phase: platformv1.OperationFailed, CompletionTime: &at}}
	if when, expires := Expiry(done, nil); !expires || !when.Equal(epoch.Add(time.Minute)) {
		t.Errorf("expires %t at %v", expires, when)
	}
	running := done.DeepCopy()
	running.Status.Phase = platformv1.OperationRunning
	kept := done.DeepCopy()
	kept.Spec.TTLSecondsAfterFinished = nil
	for _, op := range []*platformv1.Operation{running, kept} {
		if _, expires := Expiry(op, nil); expires {
			t.Errorf("%+v expires", op.Status)
		}
	}
}

func TestHistory(t *testing.T) {
	limit := int32(2)
	history := &platformv1.OperationHistory{Limit: &limit, TTL: &metav1.Duration{Duration: time.Hour}}
	op := func(name string, phase platformv1.OperationPhase, minute int) *platformv1.Operation {
		o := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: platformv1.OperationStatus{Phase: phase}}
		if minute >= 0 {
			at := metav1.NewTime(epoch.Add(time.Duration(minute) * time.Minute))
			o.Status.CompletionTime = &at
		}
		return o
	}
	all := []*platformv1.Operation{
		op("c", platformv1.OperationSucceeded, 3), op("runs", platformv1.OperationRunning, -1),
		op("b", platformv1.OperationFailed, 1),
		op("a", platformv1.OperationCancelled, 1), op("waits", platformv1.OperationPending, -1),
		op("d", platformv1.OperationSucceeded, 2),
	}
	leaving := op("leaving", platformv1.OperationFailed, 0)
	leaving.DeletionTimestamp = &metav1.Time{Time: epoch}
	own := op("own", platformv1.OperationFailed, 0)
	own.Spec.TTLSecondsAfterFinished = new(int32(7200))
	for what, tc := range map[string]struct {
		history *platformv1.OperationHistory
		more    []*platformv1.Operation
		minute  int
		names   string
		next    time.Duration
	}{
		"nothing said":      {nil, nil, 1000, "", 0},
		"beyond the limit":  {history, nil, 3, "a b", 58 * time.Minute},
		"the time over":     {history, nil, 62, "a b d", time.Minute},
		"all over":          {history, nil, 63, "a b d c", 0},
		"what goes already": {history, []*platformv1.Operation{leaving}, 3, "a b", 58 * time.Minute},
		"a time of its own": {&platformv1.OperationHistory{TTL: history.TTL}, []*platformv1.Operation{own}, 63,
			"a b d c", 57 * time.Minute},
		"its own, nothing else":  {nil, []*platformv1.Operation{own}, 121, "own", 0},
		"none are kept":          {&platformv1.OperationHistory{Limit: new(int32(0))}, nil, 3, "a b d c", 0},
		"as many as are allowed": {&platformv1.OperationHistory{Limit: new(int32(4))}, nil, 3, "", 0},
	} {
		due, next := Due(append(slices.Clone(all), tc.more...), tc.history, epoch.Add(time.Duration(tc.minute)*time.Minute))
		var names []string
		for _, o := range due {
			names = append(names, o.Name)
		}
		if strings.Join(names, " ") != tc.names || next != tc.next {
			t.Errorf("%s: %v go, the next after %s; want %q, %s", what, names, next, tc.names, tc.next)
		}
	}
}

// The pods that a template acts on, by set: what a cluster of them is made of.
func TestMembersOfATarget(t *testing.T) {
	member := func(set string, ordinal int32) Pod {
		return Pod{Name: platformv1.PodNameFor("shop-node-"+set, ordinal), Component: "node", Set: set, Ordinal: ordinal}
	}
	facts := Facts{Template: optemplate.Template{Targets: []string{"node"}}, Pods: []Pod{
		member("1", 0), member("0", 1), {Name: "shop-proxy-main-0", Component: "proxy", Set: "main"}, member("0", 0),
		member("1", 1),
	}}
	if got, want := facts.target()["members"],
		`[["shop-node-0-0","shop-node-0-1"],["shop-node-1-0","shop-node-1-1"]]`; got != want {
		t.Errorf("they are %v, want %s", got, want)
	}
	if got := (Facts{}).target()["members"]; got != "[]" {
		t.Errorf("without pods they are %v", got)
	}
}
