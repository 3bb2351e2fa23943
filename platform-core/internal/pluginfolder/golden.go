// SPDX-License-Identifier: Apache-2.0

package pluginfolder

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin"
)

// Endings of the golden files in testdata.
const (
	inputEnding  = ".in.yaml"
	outputEnding = ".out.yaml"
)

// Mode says what Test does with golden files.
type Mode string

// Modes.
const (
	// Compare fails where the outcome differs from the golden file.
	Compare Mode = "compare"
	// Update writes the outcome to the golden file.
	Update Mode = "update"
)

// Result is one golden case.
type Result struct {
	// Case is the name of the input without its ending.
	Case string
	// Err says what differs; nil when nothing does.
	Err error
}

// Test renders each testdata/*.in.yaml of a plugin and compares the outcome with its *.out.yaml, which holds the
// objects or the refusal: those of the case minimal in full, and of others what differs from its base. A plugin without
// cases is an error.
func Test(dir string, bundle *plugin.Bundle, mode Mode) ([]Result, error) {
	inputs, err := filepath.Glob(filepath.Join(dir, "testdata", "*"+inputEnding))
	if err != nil {
		return nil, fmt.Errorf("cannot list the cases of %q: %w", dir, err)
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("cannot test %q: there is no testdata/*%s", dir, inputEnding)
	}
	outputs, err := filepath.Glob(filepath.Join(dir, "testdata", "*"+outputEnding))
	if err != nil {
		return nil, fmt.Errorf("cannot list the golden files of %q: %w", dir, err)
	}
	all := cases{}
	for _, input := range inputs {
		name := strings.TrimSuffix(filepath.Base(input), inputEnding)
		all[name] = rendered(bundle, input)
	}
	var results []Result
	for _, name := range slices.Sorted(maps.Keys(all)) {
		results = append(results, Result{Case: name,
			Err: all.check(name, filepath.Join(dir, "testdata", name+outputEnding), mode)})
	}
	for _, output := range outputs {
		if name := strings.TrimSuffix(filepath.Base(output), outputEnding); all[name] == nil {
			results = append(results, Result{Case: name, Err: errors.New("the golden file has no input: delete it")})
		}
	}
	return results, nil
}

// check compares or writes the golden file of a case.
func (c cases) check(name, file string, mode Mode) error {
	got, err := c.golden(name)
	if err != nil {
		return err
	}
	if mode == Update {
		return os.WriteFile(file, got, 0o644)
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no golden file %q: make it with --update and read it", file)
	}
	if err != nil {
		return err
	}
	return compare(file, string(want), string(got))
}

// compare names the first line that differs.
func compare(file, want, got string) error {
	if want == got {
		return nil
	}
	wanted, gotten := strings.Split(want, "\n"), strings.Split(got, "\n")
	line := 0
	for line < len(wanted) && line < len(gotten) && wanted[line] == gotten[line] {
		line++
	}
	at := func(lines []string) string {
		if line < len(lines) {
			return lines[line]
		}
		return "(the end)"
	}
	return fmt.Errorf("%s:%d differs\n  want: %s\n  got:  %s", file, line+1, at(wanted), at(gotten))
}
