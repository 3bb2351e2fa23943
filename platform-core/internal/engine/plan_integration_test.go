// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// tool is zictl, built once.
var tool = sync.OnceValues(func() (string, error) {
	if path, found := testagents.Prebuilt("zictl"); found {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "zictl")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "zictl")
	output, err := exec.Command("go", "build", "-o", path, "../../cmd/zictl").CombinedOutput()
	if err != nil {
		return "", errors.New(string(output))
	}
	return path, nil
})

// cluster is where zictl is pointed at.
type cluster struct {
	t                     *testing.T
	kubeconfig, namespace string
}

// zictl runs zictl plan for objects and returns what it prints and the code that it ends with.
func (c cluster) zictl(objects string, flags ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	path, err := tool()
	if err != nil {
		c.t.Fatalf("cannot build zictl: %v", err)
	}
	command := exec.CommandContext(c.t.Context(), path,
		append([]string{"plan", "-f", "-", "--kubeconfig", c.kubeconfig, "-n", c.namespace, "--timeout", "60s"}, flags...)...)
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(objects), &out, &errs
	err = command.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		c.t.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// edited is an object as kubectl get -o yaml gives it, changed.
func edited(t *testing.T, obj client.Object, kind string, change func(*unstructured.Unstructured)) string {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(platformv1.GroupVersion.String())
	if kind != "Application" {
		object.SetAPIVersion(example.GroupVersion.String())
	}
	object.SetKind(kind)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), object); err != nil {
		t.Fatal(err)
	}
	change(object)
	data, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func set(t *testing.T, object *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object.Object, value, append([]string{"spec"}, path...)...); err != nil {
		t.Fatal(err)
	}
}

// golden compares what was printed with a file. The namespace has another name in each run.
func (c cluster) golden(name, got string) {
	c.t.Helper()
	got = strings.ReplaceAll(got, c.namespace, "NAMESPACE")
	file := filepath.Join("testdata", "plan", name+".txt")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	if got != string(want) {
		c.t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// untouched returns a check that an Application, its pods and all that lies between are as they were.
func untouched(t *testing.T, app *platformv1.Application) func() {
	t.Helper()
	versions := func() map[string]string {
		found := map[string]string{}
		for _, list := range []client.ObjectList{&platformv1.ApplicationList{}, &platformv1.ComponentList{},
			&platformv1.WorkloadSetList{}, &platformv1.OperationList{},
			&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}} {
			if err := env.Client.List(t.Context(), list, client.InNamespace(app.Namespace)); err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			var items struct {
				Items []metav1.PartialObjectMetadata
			}
			if err := json.Unmarshal(data, &items); err != nil {
				t.Fatal(err)
			}
			for _, item := range items.Items {
				found[item.Name+"/"+string(item.UID)] = item.ResourceVersion
			}
		}
		return found
	}
	before := versions()
	return func() {
		t.Helper()
		after := versions()
		for name, version := range after {
			if before[name] != version {
				t.Errorf("%s was touched: version %s, before %q", name, version, before[name])
			}
		}
		if len(after) != len(before) {
			t.Errorf("there are %d objects, before %d", len(after), len(before))
		}
	}
}

// What an edited Application would do to its pods is said by who would do it, and not done.
func TestPlanOfAnApplication(t *testing.T) {
	app := served(t)
	namespace := app.Namespace
	c := cluster{t, env.Kubeconfig(t), namespace}
	check := untouched(t, app)
	component := func(fields map[string]any) func(*unstructured.Unstructured) {
		fields["name"] = "redis"
		return func(u *unstructured.Unstructured) { set(t, u, []any{fields}, "components") }
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"nothing": func(*unstructured.Unstructured) {},
		"label": func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"team": "a", platformv1.DomainLabel: "database"})
		},
		"protected": func(u *unstructured.Unstructured) { set(t, u, true, "deletionProtection") },
		"stop":      func(u *unstructured.Unstructured) { set(t, u, false, "running") },
		"version":   func(u *unstructured.Unstructured) { set(t, u, "8.0", "version") },
		"restart":   component(map[string]any{"parameters": map[string]any{"databases": int64(20)}}),
		"reload":    component(map[string]any{"parameters": map[string]any{"maxclients": int64(2000)}}),
		"resize":    component(map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "768Mi"}}}),
		"replace":   component(map[string]any{"scheduling": map[string]any{"nodeSelector": map[string]any{"disk": "fast"}}}),
	} {
		out, errs, code := c.zictl(edited(t, app, "Application", change))
		if want := map[bool]int{true: 0, false: 1}[name == "nothing"]; code != want || errs != "" {
			t.Errorf("%s: it ends with %d, want %d: %s", name, code, want, errs)
		}
		if name == "resize" && !resizes(t) {
			name = "recreate"
		}
		c.golden(name, out)
	}
	out, _, code := c.zictl(edited(t, app, "Application",
		func(u *unstructured.Unstructured) { set(t, u, "8.0", "version") }), "-o", "json", "--server-side", "--field-manager",
		"somebody", "--force-conflicts")
	if code != 1 {
		t.Errorf("on the server's side it ends with %d", code)
	}
	c.golden("version.json", out)
	check()
}

// Several components are planned one after the other, with the objects that each consists of.
func TestPlanOfSeveralComponents(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := tiers(t, namespace)
	// The budgets come after the pods.
	for _, name := range []string{"shop-a-db-0", "shop-a-db-1"} {
		testkit.WaitFor(t, env.Client, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, "is there", nil)
	}
	check := untouched(t, app)
	c := cluster{t, env.Kubeconfig(t), namespace}
	out, errs, code := c.zictl(edited(t, app, "Application", func(u *unstructured.Unstructured) {
		set(t, u, map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{}}}}, "networkPolicy")
		set(t, u, []any{
			map[string]any{"name": "web", "replicas": int64(3), "service": map[string]any{"type": "NodePort"}},
			map[string]any{"name": "db", "replicas": int64(1),
				"scheduling": map[string]any{"nodeSelector": map[string]any{"disk": "fast"}}},
		}, "components")
	}))
	if code != 1 || errs != "" {
		t.Errorf("it ends with %d: %s", code, errs)
	}
	c.golden("tiers", out)
	check()
}

// What cannot be had is refused in the words of the webhook, and so is what cannot be planned.
func TestPlanRefusals(t *testing.T) {
	app := served(t)
	namespace := app.Namespace
	check := untouched(t, app)
	c := cluster{t, env.Kubeconfig(t), namespace}
	ask := func(change func(*unstructured.Unstructured)) string { return edited(t, app, "Application", change) }
	for name, tc := range map[string]struct{ objects, says string }{
		"version": {ask(func(u *unstructured.Unstructured) { set(t, u, "9.9", "version") }), "9.9"},
		"parameter": {ask(func(u *unstructured.Unstructured) {
			set(t, u, []any{map[string]any{"name": "redis", "parameters": map[string]any{"maxclient": int64(1)}}}, "components")
		}), "maxclient"},
		"definition": {ask(func(u *unstructured.Unstructured) { set(t, u, "many", "running") }), "spec.running"},
		"volume": {ask(func(u *unstructured.Unstructured) {
			set(t, u, []any{map[string]any{"name": "redis", "storage": map[string]any{"size": "900Gi"}}}, "components")
		}), "its storage class does not allow expansion"},
		"misspelt": {ask(func(u *unstructured.Unstructured) { set(t, u, true, "run") }), `unknown field "spec.run"`},
		"component": {"kind: Component\napiVersion: platform.zeroinfra.github.com/v1\nmetadata: {name: redis-a-redis}\n",
			"only an Application, an object that compiles to one, or an Operation can be planned"},
		"no kind": {"kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n", "cannot plan ConfigMap " + namespace + "/x"},
		"no name": {"kind: Application\napiVersion: platform.zeroinfra.github.com/v1\n", "has no metadata.name"},
		"no yaml": {"a: b: c", "cannot read YAML"},
		"empty":   {"---\n", "there is no object in the files"},
	} {
		out, errs, code := c.zictl(tc.objects)
		if code != 2 || !strings.Contains(errs, tc.says) || out != "" {
			t.Errorf("%s: it ends with %d and says %q, want %q: %s", name, code, errs, tc.says, out)
		}
	}
	fresh := "kind: Application\napiVersion: platform.zeroinfra.github.com/v1\nmetadata: {name: fresh}\nspec: {plugin: " +
		"redis, pluginVersion: 1.0.0, version: '7.0', topology: standalone}\n"
	out, errs, code := c.zictl(fresh)
	if code != 1 || errs != "" {
		t.Errorf("a new one ends with %d: %s", code, errs)
	}
	c.golden("new", out)
	for text, says := range map[string]string{"version: '7.0'": "9.9",
		"plugin: redis": "kubectl get plugins lists those that there are"} {
		broken := strings.Replace(fresh, text,
			map[string]string{"version: '7.0'": "version: '9.9'", "plugin: redis": "plugin: rides"}[text], 1)
		if out, errs, code := c.zictl(broken); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%s: it ends with %d and says %q, want %q: %s", text, code, errs, says, out)
		}
	}
	check()
}

// A plan is for a dry run only: an operator applies nothing that its author could not.
func TestNobodyAppliesByAPlan(t *testing.T) {
	app := served(t)
	for name, tc := range map[string]struct {
		template string
		change   func(*platformv1.OperationSpec)
		says     string
	}{
		"for-real": {"Plan", func(s *platformv1.OperationSpec) { s.TargetSpec = "{running: false}" },
			"set dryRun to true; to have it done, apply the object"},
		"no-spec": {"Plan", func(s *platformv1.OperationSpec) { s.DryRun = true }, `template "Plan" needs targetSpec`},
		"elsewhere": {"Stop", func(s *platformv1.OperationSpec) { s.TargetSpec = "{running: false}" },
			`template "Stop" takes no targetSpec`},
		"no-object": {"Plan", func(s *platformv1.OperationSpec) { s.TargetSpec, s.DryRun = "[1]", true },
			"targetSpec is no object"},
		"component": {"Plan", func(s *platformv1.OperationSpec) {
			s.TargetSpec, s.DryRun, s.TargetRef.Kind, s.TargetRef.Name = "{running: false}", true, "Component", "redis-a-redis"
		}, `Component "redis-a-redis" is made from Application "redis-a"`},
	} {
		status := ends(t, operate(t, app, name, tc.template, tc.change), platformv1.OperationFailed)
		if !strings.Contains(status.Error, tc.says) {
			t.Errorf("%s: it says %q, want %q", name, status.Error, tc.says)
		}
	}
	refresh(t, app)
	if !app.Spec.IsRunning() {
		t.Error("a plan was carried out")
	}
}

// An object that compiles to an Application is planned as what it would compile to.
func TestPlanOfATypedObject(t *testing.T) {
	sample, app := servedSample(t, typed.Register(example.Kind{}), "7.0")
	check := untouched(t, app)
	c := cluster{t, env.Kubeconfig(t), app.Namespace}
	out, errs, code := c.zictl(edited(t, sample, "Sample",
		func(u *unstructured.Unstructured) { set(t, u, "8.0", "version") }))
	if code != 1 || errs != "" {
		t.Errorf("it ends with %d: %s", code, errs)
	}
	c.golden("typed", out)
	out, errs, code = c.zictl("kind: Sample\napiVersion: " + example.GroupVersion.String() +
		"\nmetadata: {name: b}\nspec: {version: '7.0', replicas: 1}\n")
	if code != 1 || errs != "" {
		t.Errorf("a new one ends with %d: %s", code, errs)
	}
	c.golden("typednew", out)
	_, errs, code = c.zictl(edited(t, sample, "Sample",
		func(u *unstructured.Unstructured) { set(t, u, int64(6), "replicas") }))
	if code != 2 || !strings.Contains(errs, "spec.replicas: 6 is too many, a Sample has at most 5") {
		t.Errorf("it ends with %d: %s", code, errs)
	}
	_, errs, code = c.zictl(edited(t, app, "Application",
		func(u *unstructured.Unstructured) { set(t, u, "8.0", "version") }))
	if code != 2 || !strings.Contains(errs,
		`Application "sample-a" is made from Sample "a", which declares what it is to be`) {
		t.Errorf("it ends with %d: %s", code, errs)
	}
	check()
}
