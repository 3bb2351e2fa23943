// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"strings"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corecrd "github.com/zeroinfra/platform-core/config/crd"
)

func definition(revision string,
	conditions ...apiextensionsv1.CustomResourceDefinitionCondition) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.org"}}
	if revision != "" {
		d.Annotations = map[string]string{RevisionAnnotation: revision}
	}
	d.Status.Conditions = conditions
	return d
}

func TestDecide(t *testing.T) {
	established := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established,
		Status: apiextensionsv1.ConditionTrue}
	refused := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted,
		Status: apiextensionsv1.ConditionFalse, Message: "taken"}
	tests := map[string]struct {
		live     *apiextensionsv1.CustomResourceDefinition
		revision int
		mode     Mode
		action   action
		err      string
	}{
		"none, install":                {nil, 1, Install, actionApply, ""},
		"none, await":                  {nil, 1, Await, actionAwaitAdministrator, ""},
		"no revision":                  {definition("", established), 1, Install, actionApply, ""},
		"lower, install":               {definition("9", established), 10, Install, actionApply, ""},
		"lower, await":                 {definition("9", established), 10, Await, actionAwaitAdministrator, ""},
		"the same":                     {definition("3", established), 3, Install, actionUse, ""},
		"higher":                       {definition("10", established), 9, Install, actionUse, ""},
		"higher, await":                {definition("10", established), 9, Await, actionUse, ""},
		"not established":              {definition("3"), 3, Install, actionAwaitServer, ""},
		"refused":                      {definition("3", refused), 3, Install, "", "taken"},
		"a revision that is no number": {definition("x", established), 3, Install, "", "whole number"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := decide(test.live, test.revision, test.mode)
			if got != test.action || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.action, test.err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	document := func(name, revision string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + name +
			"\n  annotations: {" + RevisionAnnotation + ": \"" + revision +
			"\"}\nspec: {group: g, names: {kind: K, plural: k}, scope: Namespaced, versions: []}\n"
	}
	one := fstest.MapFS{"bases/a.yaml": {Data: []byte("---\n" + document("a", "1") + "---\n" + document("b", "2"))},
		"README.md": {Data: []byte("x")}}
	two := fstest.MapFS{"a.yaml": {Data: []byte(document("a", "3"))}, "b.yaml": {Data: []byte(document("b", "1"))}}
	found, err := Load(one, two)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, d := range found {
		got[d.Name] = d.Revision
	}
	if len(found) != 2 || got["a"] != 3 || got["b"] != 2 {
		t.Errorf("revisions are %v", got)
	}

	for name, data := range map[string]string{
		"no revision":      strings.ReplaceAll(document("a", "1"), RevisionAnnotation, "other"),
		"revision 0":       document("a", "0"),
		"another kind":     "apiVersion: v1\nkind: ConfigMap\n",
		"an unknown field": document("a", "1") + "extra: 1\n",
	} {
		if _, err := Load(fstest.MapFS{"bad.yaml": {Data: []byte(data)}}); err == nil ||
			!strings.Contains(err.Error(), "bad.yaml") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheCoreDefinitionsLoad(t *testing.T) {
	found, err := Load(corecrd.FS)
	if err != nil || len(found) < 5 {
		t.Fatalf("%d definitions, %v", len(found), err)
	}
}
