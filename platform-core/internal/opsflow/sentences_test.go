// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// refusal is a step that cannot do what it is asked to, and the sentence that it says.
type refusal struct {
	make func() *world
	says string
}

// refusalsOfItems are those of steps as such.
func refusalsOfItems() map[string]refusal {
	forEach := func(list string) string {
		return fmt.Sprintf("name: Each\nsteps:\n  - {name: look, wait: {apiVersion: v1, kind: ConfigMap, name: found, "+
			"until: \"true\", outputs: {names: object.names}}, types: {names: list}}\n"+
			"  - {name: many, forEach: %q, operation: {templateRef: Restart, parameters: {of: \"${each}\"}}}\n", list)
	}
	items := func(n int) (names []any) {
		for i := range n {
			names = append(names, fmt.Sprint(i))
		}
		return names
	}
	return map[string]refusal{
		"too many items": {func() *world {
			w := worldOf(forEach("steps.look.outputs.names + steps.look.outputs.names"), pod(0, primary))
			w.objects["ConfigMap found"] = map[string]any{"names": items(maxItems/2 + 1)}
			return w
		}, `step "many" would go through 1002 items: at most 1000 are allowed`},
		"items that cannot be told": {func() *world {
			w := worldOf(forEach("steps.look.outputs.names.map(n, string(int(n)))"), pod(0, primary))
			w.objects["ConfigMap found"] = map[string]any{"names": []any{"many"}}
			return w
		}, `cannot say what step "many" goes through: `},
		"an item twice, also when it is tried again": {func() *world {
			w := worldOf(strings.ReplaceAll(each, "['a', 'b']", "['a', 'b', 'a']"), pod(0, primary))
			w.happens("The Operation starts.", nil)
			wait(3 * time.Second)(w)
			return w
		}, `step "many" would go through "a" twice`},
		"a step that cannot say whether it is wanted": {func() *world {
			return worldOf("name: When\nparameters: {n: {schema: string, default: x}}\nsteps:\n  - {name: maybe, when: "+
				"int(parameters.n) > 1, agent: {call: Restart}}\n", pod(0, primary))
		}, `cannot say whether step "maybe" is wanted: `},
		"an action in a pod that was replaced": {func() *world {
			w := actingWorld()
			w.op.Spec.Retry = nil
			w.happens("The Operation starts.", nil)
			w.replace(0)
			w.facts.Template.Steps[0].Retry = nil
			return w
		}, "pod redis-a-main-0 was replaced before action ask in it was known to have ended"},
		"a step that its template has no more": {func() *world {
			w := worldOf(approved, pod(0, primary))
			w.op.Spec.Author = "ada"
			w.happens("The Operation starts.", nil)
			w.facts.Template.Steps = w.facts.Template.Steps[1:]
			return w
		}, `step "ask" is no longer part of template "Approved"`},
		"compensation that fails": {func() *world {
			w := worldOf(around, pod(0, primary))
			w.refuse["edit"], w.refuse["delete"] = "no room", "ConfigMap note is held"
			return w
		}, `step "forget" did not undo what was done: ConfigMap note is held`},
	}
}

// refusalsOfSwitchovers are those of steps that ask for another primary.
func refusalsOfSwitchovers() map[string]refusal {
	of := func(template string, parameters map[string]string, pods ...Pod) *world {
		w := worldOf(approved, pods...)
		w.facts.Template, w.facts.Parameters = Defaults()[template], parameters
		return w
	}
	return map[string]refusal{
		"a switchover without a writer": {func() *world {
			return of("Switchover", map[string]string{"component": "", "to": ""}, pod(0, reader), pod(1, reader))
		},
			`Redis "a" has no primary, so that there is nothing to hand over`},
		"a switchover among several": {func() *world {
			other := pod(1, primary)
			other.Name, other.Set = "redis-a-more-0", "more"
			return of("Switchover", map[string]string{"component": "", "to": ""}, pod(0, primary), other)
		}, `2 pods of Redis "a" are primaries: name a Component or WorkloadSet as the target`},
		"a switchover that another one won": {func() *world {
			w := handing("redis-a-main-2")
			w.happens("The Operation starts.", nil)
			labelled(1)(w)
			w.at(0).Access = reader
			return w
		}, "pod redis-a-main-1 took over from redis-a-main-0, and redis-a-main-2 was to"},
		"a failover of several sets": {func() *world {
			w := writingWorld(TemplateFailover, nil)
			w.facts.Writing["redis-a-more"] = w.facts.Writing[writingSet]
			return w
		}, `Redis "a" has several sets with a primary each: name a Component or WorkloadSet as the target`},
		"a failover that another one won": {func() *world {
			w := writingWorld(TemplateFailover, map[string]string{"to": "redis-a-main-2"})
			w.happens("The Operation starts.", nil)
			deposed(w)
			named(1)(w)
			labelled(1)(w)
			return w
		}, "pod redis-a-main-1 took over from redis-a-main-0 since its data is the most advanced, and redis-a-main-2 was to"},
	}
}

// refusalsOfRotations are those of steps that make passwords anew.
func refusalsOfRotations() map[string]refusal {
	of := func(credential string, has ...Credential) func() *world {
		return func() *world {
			w := worldOf(approved, pod(0, primary))
			w.facts.Template, w.facts.Parameters, w.facts.Credentials = Defaults()["RotateCredentials"],
				map[string]string{"credential": credential}, has
			return w
		}
	}
	return map[string]refusal{
		"a rotation where there are no passwords": {of(""), `Redis "a" has no passwords`},
		"a rotation of a password that there is not": {of("root", Credential{Name: "replica"}, Credential{Name: "default"}),
			`Redis "a" has no credential "root"; it has: "default", "replica"`},
		"a rotation of what the user supplies": {of("", Credential{Name: "default", Supplied: "mine"}),
			`the password of credential "default" comes from Secret "mine": change it there, and the instance takes it over`},
	}
}

// What a step cannot do it says in a sentence, as the error of its run, and does nothing.
func TestWhatStepsRefuse(t *testing.T) {
	all := refusalsOfItems()
	maps.Copy(all, refusalsOfSwitchovers())
	maps.Copy(all, refusalsOfRotations())
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			w := tc.make()
			w.happens("What is refused.", nil)
			if w.op.Status.Phase != platformv1.OperationFailed || !strings.Contains(w.op.Status.Error, tc.says) {
				t.Errorf("it is %s and says %q, want %q:\n%s", w.op.Status.Phase, w.op.Status.Error, tc.says, w.story.String())
			}
			if len(w.children) > 0 {
				t.Errorf("it has made %v", w.children)
			}
		})
	}
}

// Which component is meant: the one that is named, the target's own, or the only one; else the sentence says which
// there are.
func TestWhichComponentIsMeant(t *testing.T) {
	for name, tc := range map[string]struct {
		named, own string
		has        []string
		want, says string
	}{
		"the one that is named": {"web", "", []string{"db", "web"}, "web", ""},
		"the target's own":      {"", "db", []string{"db", "web"}, "db", ""},
		"the only one":          {"", "", []string{"db"}, "db", ""},
		"both the same":         {"db", "db", []string{"db", "web"}, "db", ""},
		"another than the target": {"web", "db", []string{"db", "web"}, "",
			`Redis "a" is of component "db", and parameter "component" names "web": leave it out`},
		"one that is not there": {"cache", "", []string{"db", "web"}, "",
			`Redis "a" has no component "cache"; it has: "db", "web"`},
		"one of several": {"", "", []string{"db", "web"}, "",
			`Redis "a" has several components: name one in parameter "component": "db", "web"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Facts{Target: `Redis "a"`, Component: tc.own, Components: tc.has}.componentFor(tc.named)
			if got != tc.want || (err == nil) != (tc.says == "") || err != nil && err.Error() != tc.says {
				t.Errorf("it is %q, %v; want %q, %q", got, err, tc.want, tc.says)
			}
		})
	}
}

// A verb that a newer template has, and this operator does not know, is refused in words.
func TestAVerbThatIsNotKnown(t *testing.T) {
	_, err := Facts{Components: []string{"redis"}}.fields(optemplate.EngineVerb("Teleport"), nil)
	if err == nil || err.Error() != `this operator does not know the verb "Teleport"` {
		t.Errorf("it says %v", err)
	}
}
