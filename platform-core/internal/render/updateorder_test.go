// SPDX-License-Identifier: Apache-2.0

package render

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// Components come in the order in which they are updated, and their sets say after whom they are. Pods are not replaced
// for that.
func TestUpdateOrder(t *testing.T) {
	for name, test := range map[string]struct {
		changes []string
		want    []string
		after   []string
	}{
		"no order":             {[]string{"    updateOrder: [search, quorum]\n", ""}, []string{"quorum", "search"}, nil},
		"the later one first":  {nil, []string{"search", "quorum"}, []string{"search"}},
		"as they are declared": {[]string{"[search, quorum]", "[quorum, search]"}, []string{"quorum", "search"}, nil},
	} {
		sources, errs := plugin.LoadFolder(os.DirFS(filepath.Join("..", "engine", "testdata", "plugins", "shop", "1.0.0")),
			"shop")
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		bundle := changed(t, sources, test.changes...)
		specs, refusal := Components(bundle, &platformv1.Application{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop", UID: "u"},
			Spec:       platformv1.ApplicationSpec{Plugin: "shop", PluginVersion: "1.0.0", Version: "1.0", Topology: "ordered"}})
		if refusal != nil {
			t.Fatal(refusal)
		}
		var got []string
		for i := range specs {
			got = append(got, specs[i].Component)
			out, refusal := Component(bundle, settings, Meta{Application: "a", Namespace: "shop", UID: "u"}, &specs[i])
			if refusal != nil {
				t.Fatal(refusal)
			}
			after := out.WorkloadSets[0].Spec.UpdateAfter
			if specs[i].Component == "quorum" && !slices.Equal(after, test.after) {
				t.Errorf("%s: it is updated after %v, want %v", name, after, test.after)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the components are %v, want %v", name, got, test.want)
		}
	}
}
