// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Charts that are installed; chartName is that of most tests.
const (
	chartName  = "database-operator"
	batchChart = "batch-operator"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "charts install definitions, policies and webhooks",
		AddToScheme: []func(*runtime.Scheme) error{aiv1.AddToScheme},
	})
}

// release is a rendered chart, applied but for what needs a node.
type release struct {
	*testing.T
	// chart is its name, which is that of the operator's module as well.
	chart     string
	namespace string
	account   *testkit.Operator
	// arguments of the operator's container.
	arguments []string
	// webhook is where it serves its webhooks, on this machine.
	webhook string
	output  *output
	health  string
	command *exec.Cmd
	ended   chan struct{}
}

// root is the folder of the repository.
func root() string { return filepath.Join("..", "..") }

// render returns the objects of a chart, hooks left out.
func render(t *testing.T, chart, namespace string, values ...string) []*unstructured.Unstructured {
	t.Helper()
	arguments := []string{"template", chart, filepath.Join(root(), "charts", chart), "--namespace", namespace,
		"--no-hooks",
		"--api-versions", "monitoring.coreos.com/v1"}
	for _, value := range values {
		arguments = append(arguments, "--set", value)
	}
	command := exec.Command(filepath.Join(root(), "bin", "helm"), arguments...)
	var problems bytes.Buffer
	command.Stderr = &problems
	text, err := command.Output()
	if err != nil {
		t.Fatalf("cannot render the chart: %v: %s", err, problems.String())
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() != "" {
			objects = append(objects, object)
		}
	}
}

// install applies the chart of the database operator in a namespace of its own.
func install(t *testing.T, values ...string) *release {
	t.Helper()
	return installChart(t, chartName, values...)
}

func installChart(t *testing.T, chart string, values ...string) *release {
	t.Helper()
	r := &release{T: t, chart: chart, namespace: env.Namespace(t), webhook: testkit.FreeAddress(t)}
	for _, object := range render(t, chart, r.namespace, values...) {
		if object.GetKind() == "Deployment" {
			containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			if err != nil || len(containers) != 1 {
				t.Fatalf("the Deployment has containers %v: %v", containers, err)
			}
			if r.arguments, _, err = unstructured.NestedStringSlice(containers[0].(map[string]any), "args"); err != nil {
				t.Fatal(err)
			}
		}
		if object.GetKind() == "ValidatingWebhookConfiguration" {
			r.redirect(object)
		}
		err := env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("helm"),
			client.ForceOwnership)
		if err != nil {
			t.Fatalf("cannot apply %s %q: %v", object.GetKind(), object.GetName(), err)
		}
		if object.GetNamespace() == "" {
			t.Cleanup(func() { _ = env.Client.Delete(context.Background(), object) }) // The API server goes too.
		}
	}
	account, err := env.Account(t.Context(), r.namespace, chart, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.account = account
	return r
}

// redirect leads the webhooks to this machine: the API server of these tests reaches no Service.
func (r *release) redirect(configuration *unstructured.Unstructured) {
	r.Helper()
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		r.Fatal(err)
	}
	for _, webhook := range webhooks {
		path, _, err := unstructured.NestedString(webhook.(map[string]any), "clientConfig", "service", "path")
		if err != nil {
			r.Fatal(err)
		}
		webhook.(map[string]any)["clientConfig"] = map[string]any{"url": "https://localhost:" + portOf(r.T, r.webhook) + path}
	}
	if err := unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"); err != nil {
		r.Fatal(err)
	}
}

// operators build each operator once.
var operators = map[string]func() (string, error){
	chartName: builds(chartName), batchChart: builds(batchChart), modelChart: builds(modelChart),
}

func builds(module string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "operator-")
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "manager")
		command := exec.Command("go", "build", "-C", filepath.Join(root(), module), "-o", path, "./cmd")
		command.Env = append(os.Environ(), "GOWORK=off")
		if text, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot build the operator: %w: %s", err, text)
		}
		return path, nil
	})
}

// start runs the operator as its Deployment would and waits until it is ready.
func (r *release) start() {
	r.Helper()
	path, err := operators[r.chart]()
	if err != nil {
		r.Fatal(err)
	}
	r.output, r.health = &output{}, testkit.FreeAddress(r.T)
	r.command = exec.Command(path, append(r.arguments,
		"--kubeconfig="+env.KubeconfigOf(r, r.account), "--metrics-bind-address=0", "--health-probe-bind-address="+r.health,
		"--webhook-host=localhost", "--webhook-bind-address="+r.webhook)...)
	r.command.Env = append(os.Environ(), "POD_NAMESPACE="+r.namespace)
	r.command.Stdout, r.command.Stderr, r.ended = r.output, r.output, make(chan struct{})
	if err := r.command.Start(); err != nil {
		r.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.command.Wait() // Its code says nothing more than its log.
	}()
	r.Cleanup(func() {
		r.stop()
		// The operator of the next test, in a namespace of its own, has nobody to wait for.
		registry := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: strings.TrimSuffix(r.chart, "-operator") + "-scopes.zeroinfra.github.com",
		}}
		if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), registry)); err != nil {
			r.Error(err)
		}
		if r.Failed() {
			r.Logf("the operator said:\n%s", r.output)
		}
	})
	testkit.Eventually(r, "/readyz", func(ctx context.Context) error {
		_, err := testkit.Get(ctx, "http://"+r.health+"/readyz")
		return err
	})
}

// stop ends the operator in good order.
func (r *release) stop() {
	r.Helper()
	_ = r.command.Process.Signal(os.Interrupt) // It may have ended.
	select {
	case <-r.ended:
	case <-time.After(testkit.Patience):
		r.Errorf("the operator did not end within %v", testkit.Patience)
		_ = r.command.Process.Kill() // The same.
	}
}

// nothingDenied fails when the operator asked for what it has no right to.
func (r *release) nothingDenied() {
	r.Helper()
	found, err := env.Accesses(r.account.User)
	if err != nil {
		r.Fatal(err)
	}
	if len(found) == 0 {
		r.Error("the operator has asked for nothing: it is not who the test takes it for")
	}
	for access := range found {
		if access.Refused {
			r.Errorf("it was denied to %s %s/%s in namespace %q", access.Verb, access.Group, access.Resource, access.Namespace)
		}
	}
	if text := r.output.String(); strings.Contains(strings.ToLower(text), "forbidden") {
		r.Error("its log speaks of what is forbidden")
	}
}

func makeNamespace(t *testing.T, name string) {
	t.Helper()
	if err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// output takes what a process says while the test reads it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// has returns an error when the process has not said that.
func (o *output) has(text string) error {
	if !strings.Contains(o.String(), text) {
		return fmt.Errorf("it has not said %s", text)
	}
	return nil
}
