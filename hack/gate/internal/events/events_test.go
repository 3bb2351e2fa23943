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
			_, r := readLines(t, c.lines)
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

// readLines reads the events in these lines.
func readLines(t *testing.T, lines string) (folder string, r Results) {
	t.Helper()
	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "unit.json"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	return folder, r
}

func TestOutputIsThatOfWhatFailed(t *testing.T) {
	const lines = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA/good","Output":"all is well\n"}
{"Action":"pass","Package":"p","Test":"TestA/good"}
{"Action":"output","Package":"p","Test":"TestA/bad","Output":"it broke\n"}
{"Action":"fail","Package":"p","Test":"TestA/bad"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`
	_, r := readLines(t, lines)
	if got := r.Failed[0].Output; !slices.Equal(got, []string{"it broke"}) {
		t.Errorf("the output is %q", got)
	}
}

func TestOutputOfAFailedBuildIsThatOfTheCompiler(t *testing.T) {
	const lines = `{"ImportPath":"p [p.test]","Action":"build-output","Output":"# p\n"}
{"ImportPath":"p [p.test]","Action":"build-output","Output":"a.go:1: undefined: b\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`
	_, r := readLines(t, lines)
	if got := r.Failed[0].Output; !slices.Equal(got, []string{"FAIL\tp [build failed]", "# p", "a.go:1: undefined: b"}) {
		t.Errorf("the output is %q", got)
	}
}

func TestKeepWritesTheFailedAttemptOfAFlakyTest(t *testing.T) {
	const lines = `{"Action":"run","Package":"host.example/owner/m/p","Test":"TestA"}
{"Action":"output","Package":"host.example/owner/m/p","Test":"TestA","Output":"first\n"}
{"Action":"fail","Package":"host.example/owner/m/p","Test":"TestA"}
{"Action":"fail","Package":"host.example/owner/m/p"}
{"Action":"run","Package":"host.example/owner/m/p","Test":"TestA"}
{"Action":"output","Package":"host.example/owner/m/p","Test":"TestA","Output":"second\n"}
{"Action":"pass","Package":"host.example/owner/m/p","Test":"TestA"}`
	folder, r := readLines(t, lines)
	if err := r.Keep(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "m-p.TestA.log"))
	if err != nil || string(text) != "first\n" || r.Flaky[0].Log != filepath.Join(folder, "m-p.TestA.log") {
		t.Errorf("kept %q in %q, %v", text, r.Flaky[0].Log, err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	const before = `{"Action":"output","Package":"p","Test":"TestA","Output":"before\n"}` + "\n"
	_, r := readLines(t, strings.Repeat(before, 3*maxLines)+
		`{"Action":"output","Package":"p","Test":"TestA","Output":"last\n"}`+"\n"+
		`{"Action":"fail","Package":"p","Test":"TestA"}`)
	if got := r.Failed[0].Output; len(got) != maxLines || got[len(got)-1] != "last" {
		t.Errorf("the output is %d lines", len(got))
	}
}

func TestReadOfAFolderInTheFolder(t *testing.T) {
	folder := t.TempDir()
	below := filepath.Join(folder, "integration")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	passed := []byte(`{"Action":"pass","Package":"p","Test":"TestA"}`)
	if err := os.WriteFile(filepath.Join(below, "p.json"), passed, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(folder); err != nil || len(r.Passed) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestSlowest(t *testing.T) {
	got := names(Slowest(2, Results{Passed: []Test{{Name: "A", Seconds: 1}, {Name: "B", Seconds: 3}}},
		Results{Failed: []Test{{Name: "C", Seconds: 2}}}))
	if !slices.Equal(got, []string{"B", "C"}) {
		t.Errorf("got %v", got)
	}
}

func TestReadOfAFolderThatIsNotThere(t *testing.T) {
	if r, err := Read(filepath.Join(t.TempDir(), "none")); err != nil || len(r.Passed)+len(r.Failed) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}
