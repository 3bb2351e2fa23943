// SPDX-License-Identifier: Apache-2.0

//go:build integration

package crd

import (
	"context"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr/testr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corecrd "github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

// role is for the definitions of these tests what config/rbac/crd_role.yaml is for those of the engine.
const role = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: things-role}
rules:
  - apiGroups: [apiextensions.k8s.io]
    resources: [customresourcedefinitions]
    resourceNames: [apples.example.org, berrys.example.org, cherrys.example.org, dates.example.org, elders.example.org,
      figs.example.org]
    verbs: [patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: things-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: things-role}
subjects: [{kind: ServiceAccount, name: controller-manager, namespace: system}]
`

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{Own: "they install and change definitions", System: "zeroinfra-system",
		Roles: []fs.FS{fstest.MapFS{"role.yaml": {Data: []byte(role)}}}})
}

// thing is a definition; the description tells revisions apart. It stays, with the API server that is this package's
// own.
func thing(kind string, revision int, description string) Definition {
	plural := strings.ToLower(kind) + "s"
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.org",
			Annotations: map[string]string{RevisionAnnotation: itoa(revision)}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural,
				Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Description: description}}}},
		},
	}
	return Definition{d, revision}
}

func itoa(n int) string { return string(rune('0' + n)) }

// ensure has an operator bring definitions into the cluster, with the rights that it has.
func ensure(t *testing.T, mode Mode, patience time.Duration, definitions ...Definition) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	account, err := client.New(env.System.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		return err
	}
	return (&Installer{Client: account, Mode: mode, Log: testr.New(t)}).Ensure(ctx, definitions)
}

// expect checks which revision is in the cluster and returns the definition.
func expect(t *testing.T, d Definition, description string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	live := &apiextensionsv1.CustomResourceDefinition{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: d.Name}, live); err != nil {
		t.Fatal(err)
	}
	if got := live.Spec.Versions[0].Schema.OpenAPIV3Schema.Description; got != description || !isEstablished(live) {
		t.Errorf("%q is there (established: %v), want %q", got, isEstablished(live), description)
	}
	return live
}

func TestOnlyAHigherRevisionIsApplied(t *testing.T) {
	for _, step := range []struct {
		revision    int
		description string
		want        string
	}{{2, "second", "second"}, {3, "third", "third"}, {3, "another third", "third"}, {1, "first", "third"}} {
		d := thing("Apple", step.revision, step.description)
		if err := ensure(t, Install, testkit.Patience, d); err != nil {
			t.Fatal(err)
		}
		expect(t, d, step.want)
	}
}

func TestTheSameRevisionWritesNothing(t *testing.T) {
	d := thing("Berry", 1, "first")
	if err := ensure(t, Install, testkit.Patience, d); err != nil {
		t.Fatal(err)
	}
	before := expect(t, d, "first").ResourceVersion
	if err := ensure(t, Install, testkit.Patience, d); err != nil {
		t.Fatal(err)
	}
	if after := expect(t, d, "first").ResourceVersion; after != before {
		t.Errorf("resourceVersion went from %s to %s", before, after)
	}
}

// Replicas of several versions start at once, over and over: the highest revision stays.
func TestOfManyAtOnceTheHighestWins(t *testing.T) {
	var wg sync.WaitGroup
	for round := range 4 {
		for _, revision := range []int{3, 1, 2, 3} {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := ensure(t, Install, testkit.Patience, thing("Cherry", revision, itoa(revision))); err != nil {
					t.Errorf("round %d, revision %d: %v", round, revision, err)
				}
			}()
		}
	}
	wg.Wait()
	expect(t, thing("Cherry", 3, ""), "3")
}

func TestAwaitWaitsForAnAdministrator(t *testing.T) {
	d := thing("Date", 2, "second")
	err := ensure(t, Await, time.Second, d)
	if err == nil || !strings.Contains(err.Error(), d.Name) || !strings.Contains(err.Error(), "--install-crds") {
		t.Errorf("with nobody to apply it: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- ensure(t, Await, testkit.Patience, d) }()
	if err := env.Client.Create(t.Context(), thing("Date", 1, "first").CustomResourceDefinition); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("an older revision was enough: %v", err)
	case <-time.After(4 * look):
	}
	if err := ensure(t, Install, testkit.Patience, d); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestARefusedDefinitionIsAnError(t *testing.T) {
	if err := ensure(t, Install, testkit.Patience, thing("Elder", 1, "first")); err != nil {
		t.Fatal(err)
	}
	clash := thing("Fig", 1, "clash")
	clash.Spec.Names.Kind, clash.Spec.Names.ListKind = "Elder", "ElderList"
	clash.Spec.Names.Singular = "elder"
	err := ensure(t, Install, testkit.Patience, clash)
	if err == nil || !strings.Contains(err.Error(), clash.Name) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a name that is taken: %v", err)
	}
}

func TestTheCoreDefinitionsAreServed(t *testing.T) {
	definitions, err := Load(corecrd.FS)
	if err != nil {
		t.Fatal(err)
	}
	if err := ensure(t, Install, testkit.Patience, definitions...); err != nil {
		t.Fatal(err)
	}
}
