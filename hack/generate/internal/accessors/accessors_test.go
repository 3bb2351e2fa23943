// SPDX-License-Identifier: Apache-2.0

package accessors

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sampleTypes = `package v1

// Shelf is an instance.
// +kubebuilder:object:root=true
type Shelf struct {
	Status ShelfStatus
}

// ShelfStatus inlines what instances have.
type ShelfStatus struct {
	platformv1.InstanceStatus
}

// ShelfList is a list.
// +kubebuilder:object:root=true
type ShelfList struct {
	Items []Shelf
}

// Rule has conditions and no phase of the suite.
// +kubebuilder:object:root=true
type Rule struct {
	Status RuleStatus
}

// RuleStatus has fields of its own.
type RuleStatus struct {
	Common
	Conditions []metav1.Condition
	Phase      RulePhase
}

// Common is embedded.
type Common struct {
	ObservedGeneration int64
}

// Note is no object.
type Note struct {
	Status RuleStatus
}

// Bare has a status without conditions.
// +kubebuilder:object:root=true
type Bare struct {
	Status Common
}
`

func write(t *testing.T, source string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "types.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, File), Write([]string{folder})
}

func TestObjectsWithAStatusGetAccessors(t *testing.T) {
	path, err := write(t, sampleTypes)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), path, data, 0); err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]int{
		"func (s *Shelf) SetPhase(to platformv1.Phase) { s.Status.Phase = to }":             1,
		"func (s *Shelf) GetConditions() []metav1.Condition { return s.Status.Conditions }": 1,
		"func (r *Rule) SetObservedGeneration(":                                             1,
		"func (r *Rule) SetPhase(":                                                          0,
		"ShelfList)":                                                                        0,
		"Note)":                                                                             0,
		"Bare)":                                                                             0,
	} {
		if got := strings.Count(string(data), method); got != want {
			t.Errorf("%q is there %d times, want %d", method, got, want)
		}
	}
	// A second time gives the same, and objects that are gone take the file with them.
	folder := filepath.Dir(path)
	if err := Write([]string{folder}); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(data) {
		t.Errorf("it gives something else the second time: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "types.go"), []byte("package v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write([]string{folder}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestTypesThatAreNoGoAreRefused(t *testing.T) {
	if _, err := write(t, "package"); err == nil || !strings.Contains(err.Error(), "cannot write the accessors of") {
		t.Errorf("got %v", err)
	}
}
