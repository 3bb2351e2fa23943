// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// WritingKind is a kind whose objects Operations can change, as the package typed has them. O is what its objects
// compile to, typed.Output: tests that do not serve a kind need not import what serves it.
type WritingKind[T, O any] interface {
	New() T
	Compile(T) (O, error)
	WriteThrough() map[string]string
}

// Written is an example of a field that Operations write through.
type Written struct {
	// Spec of an object, as JSON, that declares the field.
	Spec string
	// Compiled is a part of the spec that its Application then has, as JSON.
	Compiled string
}

// WriteThrough proves that what a kind says about where fields of the Application come from is what Compile does: there
// is an example of each field, which sets the field of the object and finds the value in the Application.
func WriteThrough[T, O any](t *testing.T, kind WritingKind[T, O], examples map[string]Written) {
	t.Helper()
	mapping := kind.WriteThrough()
	if got, want := slices.Sorted(maps.Keys(mapping)), slices.Sorted(maps.Keys(examples)); !slices.Equal(got, want) {
		t.Fatalf("fields are %v, and examples are for %v", got, want)
	}
	for field, example := range examples {
		obj := kind.New()
		if err := json.Unmarshal([]byte(`{"spec":`+example.Spec+`}`), obj); err != nil {
			t.Fatal(err)
		}
		if first := strings.Split(mapping[field], ".")[0]; !strings.Contains(example.Spec, `"`+first+`"`) {
			t.Errorf("%s comes from %s, and the example is %s", field, mapping[field], example.Spec)
		}
		out, err := kind.Compile(obj)
		if err != nil {
			t.Fatal(err)
		}
		var compiled struct {
			Application struct{ Spec json.RawMessage }
		}
		text, err := json.Marshal(out)
		if err == nil {
			err = json.Unmarshal(text, &compiled)
		}
		if spec := string(compiled.Application.Spec); err != nil || !strings.Contains(spec, example.Compiled) {
			t.Errorf("%s of %s is not in %s (%v)", field, example.Spec, spec, err)
		}
	}
}
