// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/driver"
	"github.com/zeroinfra/agents/internal/entity"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/testpod"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// pod is a middleware that keeps its topics as files, whose commands are the actions.
type pod struct {
	*testing.T
	dirs   planfile.Dirs
	topics string
}

func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{T: t, topics: filepath.Join(t.TempDir(), "topics")}
	if err := os.Mkdir(p.topics, 0o750); err != nil {
		t.Fatal(err)
	}
	script := func(name, text string, parameters ...string) plan.Action {
		a := plan.Action{Name: name, Command: []string{"sh", "-c", text},
			Env: []plan.EnvVar{{Name: "TOPICS", Value: p.topics}}, Parameters: map[string]string{}}
		for _, parameter := range parameters {
			a.Parameters[parameter] = "string"
			a.Env = append(a.Env, plan.EnvVar{Name: strings.ToUpper(parameter), Value: "${parameters." + parameter + "}"})
		}
		return a
	}
	write := `echo "$NAME" >>"$TOPICS/../log"; [ "$NAME" != broken ] || { echo "no $PASSWORD" >&2; exit 1; }; printf %s ` +
		`"$PARTITIONS" >"$TOPICS/$NAME"`
	p.dirs = testpod.Dirs(t, "kafka-0", plan.Plan{
		Actions: []plan.Action{
			script("list", `cd "$TOPICS" || exit 1; printf '{'; sep=; for f in *; do [ -e "$f" ] || continue; printf `+
				`'%s"%s":{"partitions":"%s"}' "$sep" "$f" "$(cat "$f")"; sep=,; done; printf '}'`),
			script("set", write, "name", "partitions", "password"), script("drop", `rm -f "$TOPICS/$NAME"`, "name"),
		},
		Entities: []plan.EntityType{{Type: "topic",
			Actions: &plan.EntityActions{List: "list", Create: "set", Update: "set", Delete: "drop"}},
			{Type: "ghost", Kind: "ghost"}},
	})
	return p
}

// keeper is the ops agent of one container.
func (p *pod) keeper() *entity.Keeper { return entity.New(testpod.Runner(p.T, p.dirs)) }

func (p *pod) change(k *entity.Keeper, key string, changes ...driver.Change) callrecord.Record {
	p.Helper()
	run, err := k.Change(entity.Call{Key: key, Type: "topic", Changes: changes})
	return testpod.Ended(p.T, run, err)
}

func topic(name string, intent driver.Intent, partitions string) driver.Change {
	return driver.Change{Query: driver.Query{Name: name, Password: "hunter2"}, Intent: intent,
		Parameters: map[string]string{"partitions": partitions}}
}

func TestActionsKeepEntities(t *testing.T) {
	p := newPod(t)
	k := p.keeper()
	got := p.change(k, "1", topic("a", driver.Create, "1"), topic("b", driver.Create, "$(exit)"),
		topic("broken", driver.Create, "3"))
	if got.Phase != callrecord.Succeeded || len(got.Outputs) != 1 ||
		!strings.Contains(got.Outputs["broken"], "failed with exit code 1: no ***") {
		t.Fatalf("got %+v", got)
	}
	observe := func() string {
		states, err := k.Observe(t.Context(), "topic", []driver.Query{{Name: "a"}, {Name: "b"}, {Name: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(states)
	}
	if got, want := observe(), "[{a map[partitions:1] map[]  Same} {b map[partitions:$(exit)] map[]  Same}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p.change(k, "2", topic("a", driver.Update, "5"), topic("b", driver.Delete, ""), topic("c", driver.Delete, ""))
	if got, want := observe(), "[{a map[partitions:5] map[]  Same}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// However many have one: who is left out counts as done.
func TestEveryProblemIsTold(t *testing.T) {
	p := newPod(t)
	if err := os.RemoveAll(p.topics); err != nil {
		t.Fatal(err)
	}
	changes := make([]driver.Change, 200)
	for i := range changes {
		changes[i] = topic(fmt.Sprintf("%d-%s", i, strings.Repeat("é", 40)), driver.Create, "1")
	}
	got := p.change(p.keeper(), "1", changes...)
	size := 0
	for _, change := range changes {
		problem := got.Outputs[change.Name]
		if size += len(problem); problem == "" || !utf8.ValidString(problem) {
			t.Errorf("%s: got %q", change.Name, problem)
		}
	}
	if got.Phase != callrecord.Succeeded || len(got.Outputs) != len(changes) || size > 16<<10 {
		t.Errorf("%s with %d problems of %d bytes", got.Phase, len(got.Outputs), size)
	}
}

func TestChangesAreMadeOnce(t *testing.T) {
	p := newPod(t)
	first := p.change(p.keeper(), "key", topic("a", driver.Create, "1"))
	if err := os.Remove(filepath.Join(p.topics, "a")); err != nil {
		t.Fatal(err)
	}
	k := p.keeper()
	again := p.change(k, "key", topic("a", driver.Create, "1"))
	log, err := os.ReadFile(filepath.Join(p.topics, "..", "log"))
	if err != nil || string(log) != "a\n" || again.Phase != first.Phase {
		t.Errorf("it was made as %q, %v; the answers are %+v and %+v", log, err, first, again)
	}
	_, err = k.Change(entity.Call{Key: "key", Type: "topic", Changes: []driver.Change{topic("a", driver.Create, "2")}})
	if !errors.Is(err, callrecord.ErrKeyReused) {
		t.Errorf("the key with another change: %v", err)
	}
	record, err := os.ReadFile(filepath.Join(p.dirs.Run, "actions-state.json"))
	if err != nil || strings.Contains(string(record), "hunter2") {
		t.Errorf("the record says %s, %v", record, err)
	}
}

func TestWhatNoCallCanDoIsRefused(t *testing.T) {
	p := newPod(t)
	k := p.keeper()
	many := make([]driver.Change, entity.MaxChanges+1)
	for i := range many {
		many[i] = topic(fmt.Sprint(i), driver.Create, "1")
	}
	for name, test := range map[string]struct {
		call entity.Call
		want error
	}{
		"an unknown type":         {entity.Call{Type: "user", Changes: many[:1]}, entity.ErrUnknown},
		"a type without a driver": {entity.Call{Type: "ghost", Changes: many[:1]}, entity.ErrUnknown},
		"nothing":                 {entity.Call{Type: "topic"}, entity.ErrRequest},
		"too much":                {entity.Call{Type: "topic", Changes: many}, entity.ErrRequest},
		"the same twice": {entity.Call{Type: "topic", Changes: []driver.Change{many[0], many[0]}},
			entity.ErrRequest},
		"an entity without a name": {entity.Call{Type: "topic", Changes: []driver.Change{{}}}, entity.ErrRequest},
	} {
		test.call.Key = name
		if _, err := k.Change(test.call); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := os.RemoveAll(p.topics); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.topics, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Observe(t.Context(), "topic", []driver.Query{{Name: "a"}}); !errors.Is(err, entity.ErrMiddleware) {
		t.Errorf("a list that is none: %v", err)
	}
}

// A list that says something else than what there is of each is no answer that there is nothing.
func TestAListThatCannotBeReadIsRefused(t *testing.T) {
	for name, file := range map[string]struct{ name, content string }{
		"no JSON":               {`a"b`, "1"},
		"what is no text":       {"a", `1","count":2,"x":"`},
		"an object within":      {"a", `1","of":{},"x":"`},
		"something after it":    {"a", `1"}}{"b":{"x":"`},
		"a list of its options": {"a", `1","of":["x"],"y":"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			if err := os.WriteFile(filepath.Join(p.topics, file.name), []byte(file.content), 0o600); err != nil {
				t.Fatal(err)
			}
			states, err := p.keeper().Observe(t.Context(), "topic", []driver.Query{{Name: "a"}})
			want := `action "list" must write a JSON object with the parameters, as texts, of each entity by name`
			if !errors.Is(err, entity.ErrMiddleware) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, %v; want %q", states, err, want)
			}
		})
	}
}
