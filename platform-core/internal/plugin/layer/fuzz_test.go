// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// value of a text; nil for one that cannot be read.
func value(text string) any {
	doc, _ := document.Parse(text)
	if doc == nil {
		return nil
	}
	return doc.Value()
}

// A change that says nothing leaves every file of the plugins as it means, however that is written.
func TestMergeOfNothingKeepsTheShippedFiles(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, "*-operator", "plugins", "*", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join(root, "*-operator", "plugins", "*", "*", "[opq]*", "*.yaml"))
	if err != nil || len(files) == 0 || len(deeper) == 0 {
		t.Fatalf("there are no files: %v", err)
	}
	for _, file := range append(files, deeper...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		merged, problems := Merge(New("base", string(data)), New("change", "{}\n"))
		if len(problems) > 0 || !reflect.DeepEqual(value(merged.Text), value(string(data))) {
			t.Errorf("%s is another one: %v", file, problems)
		}
	}
}

// Whatever is put over whatever: it is refused with a reason, or comes out as a document of which each line is from
// somewhere.
func FuzzMerge(f *testing.F) {
	f.Add("a: {b: 1}\nl:\n  - {name: x}\n", "a: {b: null}\nl:\n  - {name: x, $patch: delete}\n")
	f.Add("l:\n  # one\n  - name: x\n    v: |\n      text\n", "l:\n  - $patch: replace\n  - name: y\n")
	f.Add("[1, {name: a}]\n", "- {name: b, $patch: replace}\n")
	f.Fuzz(func(t *testing.T, base, change string) {
		merged, problems := Merge(New("base", base), New("change", change))
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Message == "" || p.File == "" {
					t.Errorf("a problem says %+v", p)
				}
			}
			return
		}
		if _, wrong := document.Parse(merged.Text); len(wrong) > 0 {
			t.Errorf("%q cannot be read: %v", merged.Text, wrong)
		}
		for line := range strings.Count(merged.Text, "\n") {
			if at := merged.Place(line + 1); at.File == "" {
				t.Errorf("line %d of %q is from nowhere", line+1, merged.Text)
			}
		}
	})
}
