// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"fmt"
	"strings"
	"testing"
)

// Each case has one rule of the merge. Texts are as an author writes them, lines from 1.
func TestMerge(t *testing.T) {
	for name, tc := range map[string]struct{ base, change, want string }{
		"a key is added":             {"a: 1\n", "b: 2\n", "a: 1\nb: 2\n"},
		"a key is changed":           {"a: 1\nb: {c: 1, d: 2}\n", "b: {c: 3}\n", "a: 1\nb:\n  c: 3\n  d: 2\n"},
		"a key is taken away":        {"a: 1\nb: {c: 1, d: 2}\n", "b: {c: null}\n", "a: 1\nb:\n  d: 2\n"},
		"the last key is taken away": {"a: {b: 1}\n", "a: {b: null}\n", "a: {}\n"},
		"a map is replaced":          {"a: {b: 1, c: 2}\n", "a: {$patch: replace, d: 3}\n", "a:\n  d: 3\n"},
		"a map becomes a text":       {"a: {b: 1}\n", "a: b\n", "a: b\n"},
		"nothing is changed":         {"a: {b: [1, 2]}\n", "{}\n", "a: {b: [1, 2]}\n"},
		"a named element is changed": {"l:\n  - {name: x, a: 1}\n  - {name: y, a: 1}\n", "l:\n  - {name: y, a: 2}\n",
			"l:\n  - {name: x, a: 1}\n  - name: y\n    a: 2\n"},
		"a named element is added": {"l:\n  - {name: x}\n", "l:\n  - {name: y}\n", "l:\n  - {name: x}\n  - {name: y}\n"},
		"a named element is taken": {"l:\n  - {name: x}\n  - {name: y}\n", "l:\n  - {name: x, $patch: delete}\n",
			"l:\n  - {name: y}\n"},
		"a named element is replaced": {"l:\n  - {name: x, a: 1}\n", "l:\n  - {name: x, $patch: replace, b: 2}\n",
			"l:\n  - name: x\n    b: 2\n"},
		"a list of named is replaced": {"l:\n  - {name: x}\n  - {name: y}\n", "l:\n  - {$patch: replace}\n  - {name: z}\n",
			"l:\n  - {name: z}\n"},
		"a list of texts is replaced": {"l: [a, b]\n", "l: [c]\n", "l: [c]\n"},
		"a list without names":        {"l:\n  - {key: a}\n  - {key: b}\n", "l:\n  - {key: c}\n", "l:\n  - {key: c}\n"},
		"an empty list gets elements": {"l: []\n", "l:\n  - {name: x}\n", "l:\n  - {name: x}\n"},
		"files go by their path": {"files:\n  - {path: /a, mode: \"1\"}\n", "files:\n  - {path: /a, mode: \"2\"}\n",
			"files:\n  - path: /a\n    mode: \"2\"\n"},
		"conditions go by their type": {"conditions:\n  - {type: A, status: b}\n", "conditions:\n  - {type: A, status: c}\n",
			"conditions:\n  - type: A\n    status: c\n"},
		"entities go by two fields": {"entities:\n  - {type: u, component: a, x: 1}\n  - {type: u, component: b, x: 1}\n",
			"entities:\n  - {type: u, component: b, x: 2}\n",
			"entities:\n  - {type: u, component: a, x: 1}\n  - type: u\n    component: b\n    x: 2\n"},
		"bindings go by their prefix": {"also:\n  - {prefix: p, x: 1}\n", "also:\n  - {prefix: p, x: 2}\n",
			"also:\n  - prefix: p\n    x: 2\n"},
		"mounts go by their path": {"volumeMounts:\n  - {name: t, mountPath: /a}\n  - {name: t, mountPath: /b}\n",
			"volumeMounts:\n  - {mountPath: /b, $patch: delete}\n", "volumeMounts:\n  - {name: t, mountPath: /a}\n"},
		"remarks and texts are kept": {"# About a.\na: \"x: y\"\n", "b: 'on'\n", "# About a.\na: \"x: y\"\nb: 'on'\n"},
		"lists within named elements": {"c:\n  - name: x\n    q:\n      - {name: a, s: 1}\n",
			"c:\n  - name: x\n    q:\n      - {name: b, s: 2}\n",
			"c:\n  - name: x\n    q:\n      - {name: a, s: 1}\n      - {name: b, s: 2}\n"},
		"a remark within a flow style": {"a: {b: {c: 1}}\n", "a:\n  # Why.\n  d: 2\n", "a:\n  b: {c: 1}\n  # Why.\n  d: 2\n"},
	} {
		merged, problems := Merge(New("base", tc.base), New("change", tc.change))
		if len(problems) > 0 || merged.Text != tc.want {
			t.Errorf("%s: got\n%s\n%v\nwant\n%s", name, merged.Text, problems, tc.want)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	const base = "a: 1\nl:\n  - {name: x, v: 1}\n  - {name: y}\ntwice:\n  - {name: x}\n  - {name: x}\n"
	for name, tc := range map[string]struct{ change, says string }{
		"a key that is not there": {"a: 2\nb: null\n",
			"change:2: b is not in the version that this one extends: there is nothing to take away"},
		"an element that is not there": {"l:\n  - {name: z, $patch: delete}\n",
			`change:2: l has no "z" in the version that this one extends`},
		"more of what is taken away": {"l:\n  - {name: x, v: 2, $patch: delete}\n",
			`change:2: l: "x" is taken away: leave its other fields out`},
		"an element without a name":   {"l:\n  - {name: x}\n  - {v: 2}\n", "change:3: l[1] has no name"},
		"a text among named elements": {"l: [x]\n", "change:1: l[0] has no name"},
		"an element twice": {"l:\n  - {name: x, v: 2}\n  - {name: x, v: 3}\n",
			`change:3: l[1]: "x" is there twice`},
		"one of two of a name": {"twice:\n  - {name: x, v: 2}\n", `change:2: twice has "x" more than once`},
		"a map is taken away by a patch": {"l:\n  - name: x\n    $patch: merge\n",
			`change:3: l[0]: $patch is "merge": it must be "replace" here`},
		"null within what is new": {"n:\n  m: null\n", "change:2: n.m: there is nothing to take away"},
		"a patch within what is new": {"n:\n  m:\n    $patch: replace\n",
			"change:3: n.m: there is nothing to take away or to replace"},
		"null in place of all": {"null\n", "change:1: "},
		"what is no YAML":      {"a: [\n", "change:1: this is not YAML"},
		"a key twice":          {"a: 1\na: 2\n", `change:2: key "a" is there twice`},
	} {
		_, problems := Merge(New("base", base), New("change", tc.change))
		var text strings.Builder
		for _, p := range problems {
			fmt.Fprintf(&text, "%s:%d: %s\n", p.File, p.Line, p.Message)
		}
		if !strings.Contains(text.String(), tc.says) {
			t.Errorf("%s: got\n%swant %q", name, text.String(), tc.says)
		}
	}
	if _, problems := Merge(New("base", "a: [\n"), New("change", "a: 1\n")); len(problems) != 1 ||
		problems[0].File != "base" {
		t.Errorf("a base that cannot be read gives %v", problems)
	}
}

// Each line of what comes out is known to be from where it was written, through any number of layers.
func TestPlaces(t *testing.T) {
	first := New("first", "a: 1\nl:\n  - name: x\n    v: 1\n\n  - name: y\n    v: 1\n")
	second, problems := Merge(first.Beside("1.0.0"), New("second", "l:\n  - name: y\n    v: 2\n  - name: z\n    v: 3\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	third, problems := Merge(second.Beside("1.1.0"), New("third", "\n\nb: 5\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	lines := strings.Split(third.Text, "\n")
	for text, want := range map[string]string{
		"a: 1": "../1.0.0/first:1", "  - name: x": "../1.0.0/first:3", "    v: 1": "../1.0.0/first:4",
		"  - name: y": "../1.0.0/first:6",
		"    v: 2":    "../1.1.0/second:3", "  - name: z": "../1.1.0/second:4", "    v: 3": "../1.1.0/second:5",
		"b: 5": "third:3",
	} {
		found := false
		for i, line := range lines {
			if line != text {
				continue
			}
			found = true
			if at := third.Place(i + 1); fmt.Sprintf("%s:%d", at.File, at.Line) != want {
				t.Errorf("%q is from %+v; want %s", text, at, want)
			}
		}
		if !found {
			t.Errorf("there is no line %q in\n%s", text, third.Text)
		}
	}
	if at := third.Place(0); at != (Place{File: "third"}) {
		t.Errorf("the whole is from %+v", at)
	}
	if at := third.Place(1000); at.File == "" {
		t.Error("a line after the end is from nowhere")
	}
}

func TestAppend(t *testing.T) {
	both := Append(New("base", "#A: {a: 1}\n\n#B: 2").Beside("1.0.0"), New("change", "#A: {b: 1}\n#C: 3\n"))
	if want := "#A: {a: 1}\n\n#B: 2\n#A: {b: 1}\n#C: 3\n"; both.Text != want {
		t.Errorf("got %q; want %q", both.Text, want)
	}
	for line, want := range map[int]Place{1: {"../1.0.0/base", 1}, 3: {"../1.0.0/base", 3}, 4: {"change", 1},
		5: {"change", 2}} {
		if at := both.Place(line); at != want {
			t.Errorf("line %d is from %+v; want %+v", line, at, want)
		}
	}
	ended := Append(New("base", "#A: 1\n"), New("change", "#B: 2\n"))
	if at := ended.Place(2); ended.Text != "#A: 1\n#B: 2\n" || at != (Place{"change", 1}) {
		t.Errorf("%q: line 2 is from %+v", ended.Text, at)
	}
}
