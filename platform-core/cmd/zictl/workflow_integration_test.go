// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

const graphTasks = `
tasks:
  - {name: bill, dependsOn: [{name: count}, {name: price, phases: [Succeeded, Skipped]}], http: {url: 'http://x'}}
  - {name: count, forEach: {items: [a, b, c]}, http: {url: 'http://x'}}
  - {name: price, dependsOn: [{name: count}], http: {url: 'http://x'}}
onExit: [{name: log, http: {url: 'http://x'}}]
`

const graphStatus = `
status:
  phase: Running
  progress: 1/4
  tasks:
    - {name: bill, phase: Pending}
    - {name: count, phase: Succeeded, items: 3/3}
    - {name: price, phase: Running, message: 'waiting for the answer of the server'}
`

// workflow creates one that is under way, unless it is a template.
func workflow(t *testing.T, env *testkit.Env, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "batch.zeroinfra.github.com", Version: "v1", Kind: "Workflow"}
	wf := testkit.Object(t, kind, namespace, name, map[string]any{}, spec)
	if err := env.Client.Create(t.Context(), wf, testkit.Strict); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(spec, "templateOnly") {
		return wf
	}
	status, err := yaml.YAMLToJSON([]byte(graphStatus))
	if err == nil {
		err = env.Client.Status().Patch(t.Context(), wf, client.RawPatch("application/merge-patch+json", status))
	}
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// The graph of a Workflow of the cluster has its states, and the tasks of its template where it has none of its own.
func TestGraphReadsAWorkflowOfTheCluster(t *testing.T) {
	env, err := testkit.Start(testkit.EnvOptions{
		CRDs: []fs.FS{os.DirFS("../../../batch-operator/config/crd/bases")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	namespace, kubeconfig := env.Namespace(t), env.Kubeconfig(t)
	template := workflow(t, env, namespace, "order", "templateOnly: true"+graphTasks)
	workflow(t, env, namespace, "own", strings.TrimPrefix(graphTasks, "\n"))
	workflow(t, env, namespace, "run", "templateFrom: {name: order}")
	graph := func(args ...string) (string, error) {
		command, out := workflowCommand(), &bytes.Buffer{}
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetOut(out)
		command.SetArgs(append([]string{"graph", "--kubeconfig", kubeconfig, "-n", namespace}, args...))
		err := command.Execute()
		return out.String(), err
	}
	const table = `Running 1/4
TASK      STATE          AFTER                              MESSAGE
count     Succeeded 3/3
  price   Running        count                              waiting for the answer of the server
    bill  Pending        count, price (Succeeded, Skipped)
log       -              the end
`
	for _, name := range []string{"own", "run"} {
		if got, err := graph(name); err != nil || got != "Workflow "+name+": "+table {
			t.Errorf("of %q it prints\n%s\nand the error %v", name, got, err)
		}
		if got, err := graph(name, "-o", "svg"); err != nil || !strings.HasPrefix(got, "<svg") ||
			!strings.Contains(got, "price") || !strings.Contains(got, "Running") {
			t.Errorf("of %q it draws\n%s\nand the error %v", name, got, err)
		}
	}
	if _, err := graph("none"); err == nil || !strings.Contains(err.Error(), `cannot read Workflow "none": `) {
		t.Errorf("the error is %v", err)
	}
	if err := env.Client.Delete(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	const gone = `cannot read Workflow "order", which it has its tasks from: `
	if _, err := graph("run"); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("the error is %v, want one with %q", err, gone)
	}
}
