// SPDX-License-Identifier: Apache-2.0

//go:build integration

package typed_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

const (
	first      = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"first"},"data":{"a":"1"}}`
	second     = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"second"},"data":{"a":"2"}}`
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{
		"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{
		"containers":[{"name":"web","image":"web"}]}}}}`
	limits = `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"sizes"},"spec":{
		"limits":[{"type":"Container","max":{"memory":"1Gi"}}]}}`
	widget = `{"apiVersion":"sample.zeroinfra.github.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}`
)

// startBundles runs the frame for Bundle and Sample.
func startBundles(t *testing.T) (stop func()) {
	t.Helper()
	return serve(t, env.System.Config, typed.Register(example.Kind{}), typed.Register(example.BundleKind{}))
}

func bundle(t *testing.T, namespace, name string, edit func(*example.BundleSpec), objects ...string) *example.Bundle {
	t.Helper()
	b := &example.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Spec.Objects = raw(objects...)
	if edit != nil {
		edit(&b.Spec)
	}
	if err := env.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func raw(objects ...string) []runtime.RawExtension {
	var all []runtime.RawExtension
	for _, object := range objects {
		all = append(all, runtime.RawExtension{Raw: []byte(object)})
	}
	return all
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// stalls waits until a Bundle is stalled for a reason, in words that have all of these texts.
func stalls(t *testing.T, b *example.Bundle, reason string, texts ...string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, b, "stalls with "+reason, func() error {
		c := conditions.Get(b, platformv1.StalledCondition)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("conditions are %+v", b.Status.Conditions)
		}
		for _, text := range texts {
			if !strings.Contains(c.Message, text) {
				return fmt.Errorf("it says %q, want %q", c.Message, text)
			}
		}
		return nil
	})
	if b.Status.Phase != platformv1.PhaseStalled {
		t.Errorf("phase is %s", b.Status.Phase)
	}
	if err := testkit.StatusLint(b); err != nil {
		t.Errorf("the status of %q breaks %v", b.Name, err)
	}
}

// rollOut plays the controller of Deployments.
func rollOut(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	testkit.WaitFor(t, env.Client, d, "is made", nil)
	before := d.DeepCopy()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1,
		ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}}
	if err := env.Client.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func TestObjectsOfATypedObject(t *testing.T) {
	stop := startBundles(t)
	namespace := env.Namespace(t)
	b := bundle(t, namespace, "a", nil, first, second, deployment)
	one, two := configMap(namespace, "first"), configMap(namespace, "second")
	testkit.WaitFor(t, env.Client, one, "is made", nil)
	testkit.WaitFor(t, env.Client, two, "is made", nil)
	if !metav1.IsControlledBy(one, b) || one.Labels[platformv1.DomainLabel] != "database" ||
		one.Labels[platformv1.OutputLabel] != "bundle" || one.Data["a"] != "1" {
		t.Errorf("it is %+v", one)
	}
	testkit.WaitFor(t, env.Client, b, "waits for the Deployment", func() error {
		c := conditions.Get(b, platformv1.ReconcilingCondition)
		if c == nil || !strings.Contains(c.Message, `Deployment "web"`) || b.Status.Phase != platformv1.PhaseUpdating {
			return fmt.Errorf("phase %s, conditions %+v", b.Status.Phase, b.Status.Conditions)
		}
		return nil
	})
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	rollOut(t, web)
	testkit.WaitForReady(t, env.Client, b)
	if b.Status.Phase != platformv1.PhaseReady || b.Status.Objects != 3 || b.Status.ObservedGeneration != b.Generation {
		t.Errorf("status is %+v", b.Status)
	}

	// At rest, and over a restart, nothing is written.
	before := writes(t)
	stop()
	startBundles(t)
	witness := bundle(t, namespace, "witness", nil)
	testkit.WaitForReady(t, env.Client, witness)
	after := writes(t)
	for kind, want := range map[string]int{"configmaps": 0, "deployments": 0, "bundles": 2} {
		if got := after[kind] - before[kind]; got != want {
			t.Errorf("%d writes of %s after a restart, want %d", got, kind, want)
		}
	}

	// Drift is repaired, what is declared no more goes, and what somebody else made stays.
	theirs := configMap(namespace, "theirs")
	theirs.Labels = one.Labels
	if err := env.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	change := client.MergeFrom(one.DeepCopy())
	one.Data["a"] = "3"
	if err := env.Client.Patch(t.Context(), one, change); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, one, "is repaired", func() error {
		if one.Data["a"] != "1" {
			return fmt.Errorf("it has %v", one.Data)
		}
		return nil
	})
	if err := testkit.Edit(t.Context(), env.Client, b, func() {
		b.Spec.Objects = raw(first, strings.Replace(first,
			"first", "third", 1))
	}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, configMap(namespace, "third"), "is made", nil)
	testkit.WaitGone(t, env.Client, two)
	testkit.WaitGone(t, env.Client, web)
	testkit.WaitForReady(t, env.Client, b)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Errorf("what somebody else made is gone: %v", err)
	}
}

func TestTwoObjectsThatCompileToOneName(t *testing.T) {
	startBundles(t)
	namespace := env.Namespace(t)
	a := bundle(t, namespace, "a", nil, first)
	testkit.WaitForReady(t, env.Client, a)
	b := bundle(t, namespace, "b", nil, first, second)
	stalls(t, b, platformv1.ReasonNameTaken, "first", `Bundle "a"`)
	two := configMap(namespace, "second")
	testkit.WaitFor(t, env.Client, two, "is made", nil)
	one := configMap(namespace, "first")
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(one), one)
	if err != nil || !metav1.IsControlledBy(one, a) {
		t.Errorf("%v, it belongs to %v", err, one.OwnerReferences)
	}
	twice := bundle(t, namespace, "c", nil, strings.Replace(first, "first", "mine", 1), strings.Replace(first, "first",
		"mine", 1))
	stalls(t, twice, platformv1.ReasonInvalidSpec, `ConfigMap "mine" is declared twice`)
	elsewhere := bundle(t, namespace, "d", nil,
		strings.Replace(first, `"name":"first"`, `"name":"first","namespace":"default"`, 1))
	stalls(t, elsewhere, platformv1.ReasonInvalidSpec, `is in namespace "default"`)
	if err := testkit.Edit(t.Context(), env.Client, a, func() { a.Spec.Objects = nil }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, b)
}

// restricted is the account of an operator that may read Bundles and LimitRanges, and of what a Bundle declares may
// write ConfigMaps only.
func restricted(t *testing.T) *testkit.Operator {
	t.Helper()
	namespace := env.Namespace(t)
	reader, err := fs.ReadFile(example.BundleRole(), "reader.yaml")
	if err != nil {
		t.Fatal(err)
	}
	account, err := env.Operator(t.Context(), namespace, example.Role(), fstest.MapFS{"reader.yaml": {Data: reader}})
	if err != nil {
		t.Fatal(err)
	}
	return account
}

func TestAnObjectThatTheOperatorMayNotWrite(t *testing.T) {
	account := restricted(t)
	serve(t, account.Config, typed.Register(example.Kind{}), typed.Register(example.BundleKind{}))
	namespace := env.Namespace(t)
	// It may read LimitRanges, and neither read nor write Deployments.
	unwritable := bundle(t, namespace, "a", nil, limits, first)
	stalls(t, unwritable, platformv1.ReasonForbidden, `LimitRange "sizes"`, "give the operator's account the rights")
	testkit.WaitFor(t, env.Client, configMap(namespace, "first"), "is made", nil)
	unreadable := bundle(t, namespace, "b", nil, deployment, second)
	stalls(t, unreadable, platformv1.ReasonForbidden, `Deployment "web"`)
	testkit.WaitFor(t, env.Client, configMap(namespace, "second"), "is made", nil)
	other := bundle(t, namespace, "c", nil)
	testkit.WaitForReady(t, env.Client, other)

	// With the rights it goes on by itself.
	writer, err := fs.ReadFile(example.BundleRole(), "writer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	system := strings.Split(account.User, ":")[2]
	if _, err := env.Operator(t.Context(), system, fstest.MapFS{"writer.yaml": {Data: writer}}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "sizes"}}, "is made", nil)
	rollOut(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}})
	testkit.WaitForReady(t, env.Client, unreadable)
}

// A kind that is installed after the operator is waited for, as one of what an object declares and of what it names.
func TestAKindThatIsInstalledLater(t *testing.T) {
	startBundles(t)
	namespace := env.Namespace(t)
	declares := bundle(t, namespace, "a", nil, widget, first)
	stalls(t, declares, platformv1.ReasonKindNotInstalled, `Widget "w"`, "install what defines it")
	names := bundle(t, namespace, "b", func(s *example.BundleSpec) { s.WidgetRef = &example.BundleReference{Name: "w"} })
	stalls(t, names, platformv1.ReasonKindNotInstalled, `spec.widgetRef names Widget "w"`)
	testkit.WaitFor(t, env.Client, configMap(namespace, "first"), "is made", nil)

	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + example.GroupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: example.GroupVersion.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget",
				ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything}}}}}
	if err := env.Client.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, declares)
	testkit.WaitForReady(t, env.Client, names)

	// It is followed by the conditions that it has.
	w := &unstructured.Unstructured{Object: map[string]any{"apiVersion": example.GroupVersion.String(), "kind": "Widget"}}
	w.SetNamespace(namespace)
	w.SetName("w")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
		t.Fatal(err)
	}
	failing := client.RawPatch(client.Merge.Type(),
		[]byte(`{"status":{"conditions":[{"type":"Stalled","status":"True","reason":"NoPaint","message":"there is no `+
			`paint"}]}}`))
	if err := env.Client.Status().Patch(t.Context(), w, failing); err != nil {
		t.Fatal(err)
	}
	stalls(t, declares, "NoPaint", `Widget "w": there is no paint`)
}

// instanceless is a kind whose objects have an Application only while they have replicas.
type instanceless struct{ example.Kind }

// Compile implements typed.Kind.
func (k instanceless) Compile(s *example.Sample) (*typed.Output, error) {
	if s.Spec.Replicas == 0 {
		return &typed.Output{}, nil
	}
	return k.Kind.Compile(s)
}

func TestAnApplicationThatIsNoLongerCompiledStays(t *testing.T) {
	serve(t, env.System.Config, typed.Register(instanceless{}))
	s := create(t, "a", example.SampleSpec{Version: "7.0", Replicas: 1})
	app := applicationOf(s)
	testkit.WaitFor(t, env.Client, app, "is made", nil)
	theirs := testkit.BuildApplication(s.Namespace, "sample-b").Build()
	if err := env.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Edit(t.Context(), env.Client, s, func() { s.Spec.Replicas = 0 }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	stalled := conditions.Get(s, platformv1.StalledCondition)
	if stalled.Reason != platformv1.ReasonInvalidSpec ||
		!strings.Contains(stalled.Message, `Application "sample-a" is no longer declared`) {
		t.Errorf("it says %+v", stalled)
	}
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, s)
	none := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b"},
		Spec: example.SampleSpec{Version: "7.0"}}
	if err := env.Client.Create(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, none)
}

// partly is a kind that refuses a number of replicas, and declares the Application all the same.
type partly struct{ example.Kind }

// Compile implements typed.Kind.
func (k partly) Compile(s *example.Sample) (*typed.Output, error) {
	out, err := k.Kind.Compile(s)
	if err == nil && s.Spec.Replicas > 1 {
		out.Refused = typed.Refuse("TooMany", "replicas is above 1: take it out")
	}
	return out, err
}

func TestWhatIsRefusedStallsAndTheRestIsApplied(t *testing.T) {
	serve(t, env.System.Config, typed.Register(partly{}))
	s := create(t, "partly", example.SampleSpec{Version: "7.0", Replicas: 2})
	testkit.WaitFor(t, env.Client, applicationOf(s), "is made", nil)
	testkit.WaitForCondition(t, env.Client, s, platformv1.StalledCondition, metav1.ConditionTrue)
	if c := conditions.Get(s, platformv1.StalledCondition); c.Reason != "TooMany" ||
		c.Message != "replicas is above 1: take it out" {
		t.Errorf("it says %+v", c)
	}
	if err := testkit.Edit(t.Context(), env.Client, s, func() { s.Spec.Replicas = 1 }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, s, "is not stalled", func() error {
		if c := conditions.Get(s, platformv1.StalledCondition); c != nil && c.Status == metav1.ConditionTrue {
			return fmt.Errorf("Stalled is %+v", c)
		}
		return nil
	})
}
