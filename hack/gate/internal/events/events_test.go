// SPDX-License-Identifier: Apache-2.0

package events

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// names are tests as "package name".
func names(tests []Test) []string {
	var all []string
	for _, t := range tests {
		all = append(all, strings.TrimSpace(t.Package+" "+t.Name))
	}
	return all
}

func TestReadJudgesTests(t *testing.T) {
	for name, c := range map[string]struct {
		lines                 string
		passed, failed, flaky []string
		skipped               int
	}{
		"a test that passed": {
			lines: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"pass","Package":"p"}`,
			passed: []string{"p TestA"},
		},
		"a subtest counts with its test": {
			lines: `{"Action":"fail","Package":"p","Test":"TestA/sub"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			failed: []string{"p TestA"},
		},
		"a test that passed when it was run again": {
			lines: `{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			flaky: []string{"p TestA"},
		},
		"a test whose process ended": {
			lines: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			failed: []string{"p TestA"},
		},
		"a package that does not compile": {
			lines: `p.go:1:1: syntax error
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p"}`,
			failed: []string{"p"},
		},
		"a skipped test": {
			lines:   `{"Action":"skip","Package":"p","Test":"TestA"}`,
			skipped: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "unit.json"), []byte(c.lines), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			for what, got := range map[string][2][]string{
				"passed": {names(r.Passed), c.passed}, "failed": {names(r.Failed), c.failed}, "flaky": {names(r.Flaky), c.flaky},
			} {
				if !slices.Equal(got[0], got[1]) {
					t.Errorf("%s: %v, want %v", what, got[0], got[1])
				}
			}
			if r.Skipped != c.skipped {
				t.Errorf("%d were skipped, want %d", r.Skipped, c.skipped)
			}
		})
	}
}

func TestReadKeepsTheEndOfTheOutput(t *testing.T) {
	folder := t.TempDir()
	lines := strings.Repeat(`{"Action":"output","Package":"p","Test":"TestA","Output":"before\n"}`+"\n", 500) +
		`{"Action":"output","Package":"p","Test":"TestA","Output":"last\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestA"}`
	if err := os.WriteFile(filepath.Join(folder, "unit.json"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Failed[0].Output; len(got) != outputLines || got[len(got)-1] != "last" {
		t.Errorf("the output is %d lines: %v", len(got), got)
	}
}

func TestReadOfAFolderThatIsNotThere(t *testing.T) {
	if r, err := Read(filepath.Join(t.TempDir(), "none")); err != nil || len(r.Passed)+len(r.Failed) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}
