// SPDX-License-Identifier: Apache-2.0

package objectdiff

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// tree reads YAML.
func tree(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestDiff(t *testing.T) {
	script := "one\ntwo\nthree\nfour\nfive"
	for name, c := range map[string]struct{ from, to, want string }{
		"field":              {`{a: 1, b: 2}`, `{a: 1, b: 3}`, `{b: 3}`},
		"new field":          {`{a: 1}`, `{a: 1, b: {c: 3}}`, `{b: {c: 3}}`},
		"field that is gone": {`{a: 1, b: 2}`, `{a: 1}`, `{b: $removed}`},
		"element": {`[{name: a, x: 1, y: 2}, {name: b}]`, `[{name: a, x: 3, y: 2}, {name: b}]`,
			`[{name: a, x: 3}]`},
		"last element": {`[{name: a}]`, `[{name: a}, {name: b}, {name: c}]`, `[{name: b}, {name: c}]`},
		"elements between": {`[{name: a}, {name: d}]`, `[{name: a}, {name: b}, {name: c}, {name: d}]`,
			`[{name: b, $after: a}, {name: c}]`},
		"element that is gone": {`[{name: a}, {name: b}]`, `[{name: b}]`, `[{name: a, $removed: true}]`},
		"order":                {`[{name: a}, {name: b}]`, `[{name: b}, {name: a}]`, `[{$order: [b, a]}]`},
		"no names any more":    {`[{name: a}]`, `[{name: a}, {name: a}]`, `[{$replaced: true}, {name: a}, {name: a}]`},
		"arguments":            {`[a, b]`, `[a, c]`, `[a, c]`},
		"part of an element": {`[{a: {b: 1, c: 2}}, {a: 1}]`, `[{a: {b: 1, c: 3}}, {a: 1}]`,
			`{$items: {"0": {a: {c: 3}}}}`},
		"line": {fmt.Sprintf("[sh, %q]", script), fmt.Sprintf("[sh, %q]", strings.Replace(script, "two", "2", 1)),
			`{$items: {"1": {$lines: [{from: two, to: "2"}]}}}`},
		"new line": {fmt.Sprintf("{a: %q}", script), fmt.Sprintf("{a: %q}", strings.Replace(script, "two", "two\nand", 1)),
			`{a: {$lines: [{from: two, to: "two\nand"}]}}`},
		"short text":  {`{a: "b\nc"}`, `{a: "b\nd"}`, `{a: "b\nd"}`},
		"other types": {`{a: [1], b: {c: 1}, d: e}`, `{a: {f: 1}, b: [1], d: [1]}`, `{a: {f: 1}, b: [1], d: [1]}`},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := tree(t, c.from), tree(t, c.to)
			got, differs := Diff(from, to)
			if !differs || !reflect.DeepEqual(got, tree(t, c.want)) {
				t.Errorf("got %v, want %s", got, c.want)
			}
			if back := Apply(from, got); !reflect.DeepEqual(back, to) {
				t.Errorf("it makes %v of the first", back)
			}
			if !reflect.DeepEqual(from, tree(t, c.from)) || !reflect.DeepEqual(to, tree(t, c.to)) {
				t.Error("the trees were changed")
			}
		})
	}
	if _, differs := Diff(tree(t, `{a: [{name: b}]}`), tree(t, `{a: [{name: b}]}`)); differs {
		t.Error("what is the same differs")
	}
}

// random makes trees that have much in common.
type random struct{ *rand.Rand }

func (r random) pick(some ...string) string { return some[r.IntN(len(some))] }

func (r random) tree(depth int) any {
	if depth == 0 {
		return r.pick("a", "b", "", "1", removed, "$a")
	}
	switch r.IntN(6) {
	case 0:
		return float64(r.IntN(3))
	case 1:
		var lines []string
		for range r.IntN(9) {
			lines = append(lines, r.pick("one", "two", "three", ""))
		}
		return strings.Join(lines, "\n")
	case 2:
		list := []any{}
		for range r.IntN(5) {
			list = append(list, r.tree(depth-1))
		}
		return list
	case 3:
		list := []any{}
		for range r.IntN(6) {
			list = append(list, Object{r.pick("name", "name", "name", "key"): r.pick("a", "b", "c", "d", "e"),
				r.pick("x", removed, after): r.tree(depth - 1)})
		}
		return list
	}
	object := Object{}
	for range r.IntN(5) {
		object[r.pick("name", "a", "b", "c", after, order, "$$x")] = r.tree(depth - 1)
	}
	return object
}

func TestADifferenceIsExact(t *testing.T) {
	for seed := range uint64(20000) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		from, to := r.tree(4), r.tree(4)
		patch, differs := Diff(from, to)
		if differs != !reflect.DeepEqual(from, to) {
			t.Fatalf("seed %d: %v and %v: differs is %v", seed, from, to, differs)
		}
		if back := Apply(from, patch); differs && !reflect.DeepEqual(back, to) {
			t.Fatalf("seed %d: from %v to %v is %v, which makes %v", seed, from, to, patch, back)
		}
	}
}

func TestObjectsAreToldApartByKindAndName(t *testing.T) {
	from := tree(t, `[{kind: Service, metadata: {name: a, labels: {x: y}}, spec: {port: 1}}, {kind: Pod, metadata: `+
		`{name: a}}]`).([]any)
	to := tree(t, `[{kind: Service, metadata: {name: a}, spec: {port: 2}}, {kind: Secret, metadata: {name: a}}]`).([]any)
	got, err := DiffObjects(from, to)
	want := tree(t,
		`[{kind: Pod, metadata: {name: a}, $removed: true},
		{kind: Service, metadata: {name: a, labels: $removed}, spec: {port: 2}},
		{kind: Secret, metadata: {name: a}}]`)
	if err != nil || !reflect.DeepEqual(any(got), want) {
		t.Errorf("got %v, %v", got, err)
	}
	if back := ApplyObjects(from, got); !reflect.DeepEqual(back, to) {
		t.Errorf("it makes %v", back)
	}
}
