// SPDX-License-Identifier: Apache-2.0

package reasons

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// TestEveryReasonHasMeaningAndRemedy fails when a condition type or a reason of the repository has a comment of another
// form, or when two constants of a section have the same value.
func TestEveryReasonHasMeaningAndRemedy(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	sections, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, section := range sections {
		for _, one := range section.Entries {
			known[one.Value] = true
		}
	}
	wanted := []string{"Ready", "PluginNotFound", "StepFailed", "RepositoryRefused", "BackupsFail", "LastRunSucceeded"}
	for _, want := range wanted {
		if !known[want] {
			t.Errorf("%q was not found in the repository", want)
		}
	}
}

// TestPageIsUpToDate fails when a comment was changed and make generate was not run.
func TestPageIsUpToDate(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, Page))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what the comments say: run make generate", Page)
	}
}

func TestParseSplitsComments(t *testing.T) {
	sections, err := parse("x.go", []byte(`package x

// Reasons of tests. Test has
// them.
const (
	// ReasonOdd: the number, e.g. 3,
	// is odd. The operator waits. Make it | even.
	ReasonOdd = "Odd"
	// OddCondition: True when the number is odd. Wait.
	// Kinds: Test, Other.
	OddCondition = "IsOdd"
	// ReasonEnv is no reason.
	ReasonEnv = "REASON_FILE"
)
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(sections) != 2 {
		t.Fatalf("%d sections, want 2: %+v", len(sections), sections)
	}
	conditions, reasons := sections[0], sections[1]
	want := entry{Value: "IsOdd", Kinds: "Test, Other", Meaning: "True when the number is odd", Remedy: "Wait"}
	if len(conditions.Entries) != 1 || conditions.Entries[0] != want {
		t.Errorf("conditions are %+v, want %+v", conditions.Entries, want)
	}
	want = entry{Value: "Odd", Meaning: "The number, e.g. 3, is odd. The operator waits", Remedy: "Make it | even"}
	if len(reasons.Entries) != 1 || reasons.Entries[0] != want {
		t.Errorf("reasons are %+v, want %+v", reasons.Entries, want)
	}
	if reasons.Title != "Reasons of tests" || reasons.Intro != "Test has them." {
		t.Errorf("title is %q and intro %q", reasons.Title, reasons.Intro)
	}
}

func TestMergeRefusesAValueTwice(t *testing.T) {
	one := section{Title: "Reasons of tests", Entries: []entry{{Value: "Odd"}}}
	sections, err := merge(nil, one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merge(sections, section{Title: one.Title, Entries: []entry{{Value: "Even"}}}); err != nil {
		t.Errorf("another value is refused: %v", err)
	}
	if _, err := merge(sections, one); err == nil || !strings.Contains(err.Error(), `the value "Odd"`) {
		t.Errorf("error is %v, want one about Odd", err)
	}
}

func TestParseRefusesCommentsOfAnotherForm(t *testing.T) {
	const (
		block = "// Reasons of tests. Test has them.\n"
		value = "\n\tReasonOdd = \"Odd\"\n)"
		none  = "ReasonOdd needs a comment"
	)
	for name, of := range map[string]struct{ source, want string }{
		"none":                {block + "const (" + value, none},
		"without a colon":     {block + "const (\n// ReasonOdd says so. Wait." + value, none},
		"without a remedy":    {block + "const (\n// ReasonOdd: it is odd." + value, none},
		"without a full stop": {block + "const (\n// ReasonOdd: it is odd. Wait" + value, none},
		"of another constant": {block + "const (\n// ReasonEven: it is odd. Wait." + value, none},
		"unexported":          {block + "const (\n\treasonOdd = \"Odd\"\n)", "reasonOdd needs a comment"},
		"block without one":   {"const (\n// ReasonOdd: it is odd. Wait." + value, "the block of reasons needs"},
		"condition of no kind": {"const (\n// OddCondition: True. Wait.\nOddCondition = \"Odd\"\n)",
			"OddCondition needs a line"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("x.go", []byte("package x\n\n"+of.source+"\n"))
			if err == nil || !strings.Contains(err.Error(), of.want) {
				t.Errorf("error is %v, want one with %q", err, of.want)
			}
		})
	}
}
