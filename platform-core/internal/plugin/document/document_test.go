// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

type inner struct {
	Port int32             `json:"port"`
	Size resource.Quantity `json:"size"`
}

type embedded struct {
	Mode string `json:"mode"`
}

type sample struct {
	embedded `json:",inline"`
	Name     string            `json:"name"`
	On       *bool             `json:"on,omitempty"`
	Ratio    float64           `json:"ratio"`
	Labels   map[string]string `json:"labels"`
	List     []inner           `json:"list"`
	hidden   string
}

func problems(text string) []string {
	doc, found := Parse(text)
	if doc != nil {
		found = doc.Check(reflect.TypeFor[sample](), nil)
	}
	lines := make([]string, 0, len(found))
	for _, p := range found {
		lines = append(lines, fmt.Sprintf("%d: %s", p.Line, p.Message))
	}
	return lines
}

func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"right":        {"name: a\nmode: b\non: true\nratio: 1\nlabels: {a: b}\nlist: [{port: 1, size: 1Gi}]\n", nil},
		"empty":        {"", []string{"1: the document is empty"}},
		"comment only": {"# a\n", []string{"1: the document is empty"}},
		"no YAML":      {"name: [a\n", []string{"1: this is not YAML: did not find expected ',' or ']'"}},
		"tab": {"name: a\n\tmode: b\n",
			[]string{"2: this is not YAML: found a tab character that violates indentation"}},
		"indentation": {"list:\n  - port: 1\n    size: 1Gi\n   name: a\n", []string{
			"1: this is not YAML: did not find expected '-' indicator: in what begins here, a line is indented otherwise than " +
				"those of the same list or map",
		}},
		"deeper": {"name: a\n  mode: b\n", []string{
			"2: this is not YAML: mapping values are not allowed in this context: the line is indented more than the one " +
				"before it, or has a text with a colon that needs quotes",
		}},
		"second document": {"name: a\n---\nname: b\n",
			[]string{"2: there is a second document: one file holds one document"}},
		"duplicate": {"name: a\nmode: b\nname: c\n", []string{`3: key "name" is there twice`}},
		"alias": {"name: &x a\nmode: *x\n",
			[]string{"1: anchors and aliases are not supported: write the value out",
				"2: anchors and aliases are not supported: write the value out"}},
		"merge":        {"labels: {a: b}\n<<: {name: a}\n", []string{"2: merge keys are not supported: write the value out"}},
		"tag":          {"name: !!binary aGk=\n", []string{"1: the tag !!binary is not supported"}},
		"own tag":      {"name: !x a\n", []string{"1: the tag !x is not supported"}},
		"key is a map": {"{a: b}: c\n", []string{"1: a key must be plain text"}},
		"big number":   {"ratio: 18446744073709551615\n", []string{"1: the number 18446744073709551615 is too big"}},
		"not a number": {"ratio: .inf\n", []string{"1: the number .inf is not finite"}},
		"unknown": {"nam: a\nlist:\n  - port: 1\n    sizes: 1Gi\n",
			[]string{`4: field "list[0].sizes" is not known: did you mean "size"?`,
				`1: field "nam" is not known: did you mean "name"?`}},
		"hidden": {"hidden: a\n", []string{`1: field "hidden" is not known: there is labels, list, mode, name, on, ratio`}},
		"wrong types": {"name: 7.0\non: maybe\nratio: high\nlabels: [a]\nlist: {}\n", []string{
			"4: labels is a list: it must be a map", "5: list is a map: it must be a list",
			"1: name is 7: it must be text (put it in quotes)", `2: on is the text "maybe": it must be true or false`,
			`3: ratio is the text "high": it must be a number`,
		}},
		"too big for its field": {"list:\n  - port: 4294967296\n",
			[]string{"2: list[0].port is 4294967296: it must be a whole number"}},
		"not a quantity": {"list:\n  - port: 1\n  - size: much\n",
			[]string{"3: list[1].size: \"much\" is not allowed: it must be a quantity such as 500m, 2, 512Mi or 8Gi"}},
		"null":      {"name:\n", []string{"1: name has no value: leave the field out instead"}},
		"not a map": {"- a\n", []string{"1:  is a list: it must be a map"}},
	} {
		if got := problems(tc.text); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
		}
	}
}

func TestDepth(t *testing.T) {
	got := problems("labels: " + strings.Repeat("[", 100) + strings.Repeat("]", 100))
	if len(got) != 1 || !strings.Contains(got[0], "nested more than") {
		t.Errorf("got %q", got)
	}
}

func TestLine(t *testing.T) {
	doc, found := Parse("a:\n  - b: 1\n  -\n    b: 2\n    c: {d: 3}\n")
	if len(found) > 0 {
		t.Fatal(found)
	}
	for path, want := range map[string]int{"": 1, "a": 1, "a 0": 2, "a 0 b": 2, "a 1": 4, "a 1 b": 4, "a 1 c d": 5,
		"a 1 x y": 4, "z": 1} {
		if got := doc.Line(strings.Fields(path)); got != want {
			t.Errorf("Line(%q) = %d; want %d", path, got, want)
		}
	}
	if got := (Path{"a", "1", "c", "d"}).String(); got != "a[1].c.d" {
		t.Errorf("path is %q", got)
	}
}

func TestDecode(t *testing.T) {
	doc, found := Parse("name: a\nmode: \"0600\"\nlist: [{port: 6379, size: 1Gi}]\n")
	if len(found) > 0 {
		t.Fatal(found)
	}
	var got sample
	if err := doc.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "a" || got.Mode != "0600" || len(got.List) != 1 || got.List[0].Port != 6379 ||
		got.List[0].Size.String() != "1Gi" || got.hidden != "" {
		t.Errorf("got %+v", got)
	}
	if err := DecodeValue(map[string]any{"nam": "a"}, &got); err == nil {
		t.Error("an unknown field was accepted")
	}
}

func TestNearest(t *testing.T) {
	names := []string{"maxmemory", "maxmemory-policy", "save", "maxclients"}
	for wrong, want := range map[string]string{
		"maxmemroy": "maxmemory", "maxmemory_policy": "maxmemory-policy", "sav": "save", "maxclient": "maxclients", "xyz": "",
		"": "",
	} {
		if got := Nearest(wrong, names); got != want {
			t.Errorf("Nearest(%q) = %q; want %q", wrong, got, want)
		}
	}
}

// A document is refused with a line, or has a value that JSON can hold.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: b", "a: [1, 2.5, true, null]", "? {a: b}\n: c", "&a [*a]", "a: !!int x",
		"2001-01-01: 2001-01-01", "a: .nan", "a: 0x1F", "a: |\n  x\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, found := Parse(text)
		if (doc == nil) == (len(found) == 0) {
			t.Fatalf("Parse(%q) = %v, %v", text, doc, found)
		}
		for _, p := range found {
			if p.Message == "" || p.Line < 1 {
				t.Fatalf("Parse(%q): problem %+v", text, p)
			}
		}
		if doc == nil {
			return
		}
		for _, p := range doc.Check(reflect.TypeFor[sample](), nil) {
			if p.Line < 1 {
				t.Fatalf("Check(%q): problem %+v has no line", text, p)
			}
		}
		if _, err := json.Marshal(doc.Value()); err != nil {
			t.Fatalf("the value of %q cannot be written: %v", text, err)
		}
	})
}
