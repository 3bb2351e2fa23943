// SPDX-License-Identifier: Apache-2.0

package application

import (
	"reflect"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/outermost"
)

// What an edited Component is to be given is declared; what it gets already from another place of its spec is not,
// since nothing would come of that.
func TestValuesIn(t *testing.T) {
	main := fieldpath.KeyByFields("name", "main")
	edit := func(is any, path ...any) edits.Edit {
		return edits.Edit{Path: fieldpath.MakePathOrDie(path...), Is: is}
	}
	spec := &platformv1.ComponentSpec{Replicas: 1, Parameters: platformv1.Parameters{"a": "1"},
		Sets: []platformv1.ComponentSet{{Name: "main"}}}
	for name, test := range map[string]struct {
		edit   edits.Edit
		values []outermost.Value
		had    bool
	}{
		"a set's parameter": {edit("2", "spec", "sets", main, "parameters", "a"),
			[]outermost.Value{{Set: "main", Field: "parameters", Path: []string{"a"}, Value: "2"}}, false},
		"one that it has by now": {edit("1", "spec", "sets", main, "parameters", "a"), nil, true},
		"one of a set there is not": {edit("1", "spec", "sets", fieldpath.KeyByFields("name", "x"), "parameters", "a"), nil,
			false},
		"something else": {edit("8", "spec", "version"), nil, false},
	} {
		found := edits.Found{Edits: []edits.Edit{test.edit}}
		found.Have(isHad(spec))
		if values := valuesIn(found.Edits, spec); !reflect.DeepEqual(values, test.values) ||
			(len(found.Had) > 0) != test.had {
			t.Errorf("%s: got %+v, and it has %v", name, values, found.Had)
		}
	}
}
