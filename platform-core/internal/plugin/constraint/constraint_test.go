// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
)

func TestDescribe(t *testing.T) {
	root := cuecontext.New().CompileString(`
import "strings"

#Size:  =~"^[0-9]+mb$" @allowed("a size such as 100mb")
#YesNo: "yes" | "no"
#Count: int & >=0 & <=9
#Cycle: "x" | #Cycle
x: {
	text?:      string
	size?:      #Size
	yes?:       #YesNo
	more?:      #YesNo | "maybe"
	sized?:     #Size | "none"
	count?:     #Count
	low?:       int & >=1
	high?:      int & <=5
	above?:     number & >0.5
	below?:     number & <2
	between?:   int & >1 & <9
	narrowed?:  #Count & <=5
	truth?:     bool
	one?:       "a"
	regex?:     =~"^a+$"
	said?:      int @allowed("what is said")
	either?:    int | "auto"
	map?:       {a: string}
	list?:      [...string]
	not?:       int & !=3
	notText?:   string & !="a" & !="b"
	unlike?:    !~"^x"
	called?:    strings.MaxRunes(3)
	cycle?:     #Cycle
}`)
	if err := root.Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"text":     "text",
		"size":     "a size such as 100mb",
		"yes":      `one of "yes" or "no"`,
		"more":     `one of "yes", "no" or "maybe"`,
		"sized":    `"none" or a size such as 100mb`,
		"count":    "a whole number from 0 to 9",
		"low":      "a whole number of at least 1",
		"high":     "a whole number of at most 5",
		"above":    "a number above 0.5",
		"below":    "a number below 2",
		"between":  "a whole number above 1 and below 9",
		"narrowed": "a whole number from 0 to 5",
		"truth":    "true or false",
		"one":      `"a"`,
		"regex":    `text that matches "^a+$"`,
		"said":     "what is said",
		"either":   `"auto" or a whole number`,
		"map":      "a map",
		"list":     "a list",
		"not":      "a whole number other than 3",
		"notText":  `text other than "a" or "b"`,
		"unlike":   `text that does not match "^x"`,
		"called":   "text that meets strings.MaxRunes(3)",
		"cycle":    `"x"`,
	} {
		value := root.LookupPath(cue.MakePath(cue.Str("x"), cue.Str(name).Optional()))
		if got := Describe(value); got != want {
			t.Errorf("Describe(%s) = %q; want %q", name, got, want)
		}
	}
}

func TestValidateNamesEachPathOnce(t *testing.T) {
	schema, err := Compile(`
#Thing: {
	name!:  =~"^[a-z]+$" @allowed("small letters")
	kind!:  "a" | "b"
	ports?: [...{port!: int & >0}]
	images?: {[string]: =~"^[a-z]+$" @allowed("a name")}
}`, "test.cue")
	if err != nil {
		t.Fatal(err)
	}
	value := map[string]any{
		"name":   "A",
		"ports":  []any{map[string]any{"port": int64(0)}, map[string]any{}},
		"images": map[string]any{"7.0": "!"},
	}
	var got []string
	for _, v := range schema.Validate("#Thing", value) {
		got = append(got, strings.Join(v.Path, ".")+" "+v.Message)
	}
	slices.Sort(got)
	want := []string{
		`images.7.0 is "!": it must be a name`,
		`kind is missing: it must be one of "a" or "b"`,
		`name is "A": it must be small letters`,
		`ports.0.port is 0: it must be a whole number above 0`,
		`ports.1.port is missing: it must be a whole number above 0`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	if left := schema.Validate("#Thing", map[string]any{"name": "a", "kind": "b"}); len(left) > 0 {
		t.Errorf("a right value was refused: %v", left)
	}
}

func TestBundleSchemaCompiles(t *testing.T) {
	for _, definition := range []string{"#Components", "#ParameterSet", "#Operation"} {
		if !Bundle().root.LookupPath(cue.MakePath(cue.Def(definition))).Exists() {
			t.Errorf("the schema has no %s", definition)
		}
	}
}
