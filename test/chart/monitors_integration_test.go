// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// monitoring is the module of the Prometheus Operator, in the version that testdata/prometheus-operator requires.
const monitoring = "github.com/prometheus-operator/prometheus-operator"

// installMonitors has the API server serve the kinds PodMonitor and ServiceMonitor as the Prometheus Operator defines
// them.
func installMonitors(t *testing.T) {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", monitoring)
	command.Dir = filepath.Join("testdata", "prometheus-operator")
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	said, err := command.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(said, &module); err != nil || jsonErr != nil || module.Dir == "" {
		t.Fatalf("module %s cannot be had: %v, %v: %s", monitoring, err, jsonErr, module.Error)
	}
	for _, kind := range []string{"podmonitors", "servicemonitors"} {
		file := filepath.Join(module.Dir, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+kind+".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, definition := range documents(t, file, text) {
			if err := env.Client.Create(t.Context(), definition); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = env.Client.Delete(context.Background(), definition) }) // The API server goes too.
			testkit.WaitFor(t, env.Client, definition, "is served", func() error {
				conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
				for _, condition := range conditions {
					if c, ok := condition.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
						return nil
					}
				}
				return fmt.Errorf("it has %v", conditions)
			})
		}
	}
}

// documents are the objects in a text, which is of some place.
func documents(t *testing.T, where string, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if object.GetKind() != "" {
			objects = append(objects, object)
		}
	}
}

// becomes are the objects that a case of a plugin's tests becomes.
func becomes(t *testing.T, zictl, input string) []*unstructured.Unstructured {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), zictl, "plugin", "render", filepath.Dir(filepath.Dir(input)), "-f", input)
	var said bytes.Buffer
	cmd.Stderr = &said
	data, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", input, err, said.String())
	}
	return documents(t, input, data)
}

// watched are the cases of plugins' tests that have monitoring and are not refused.
func watched(t *testing.T) []string {
	t.Helper()
	cases, err := filepath.Glob(filepath.Join(root(), "*-operator", "plugins", "*", "*", "testdata", "*.in.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(cases, func(input string) bool {
		in, err := os.ReadFile(input)
		out, outErr := os.ReadFile(strings.TrimSuffix(input, ".in.yaml") + ".out.yaml")
		if err := errors.Join(err, outErr); err != nil {
			t.Fatal(err)
		}
		return !bytes.Contains(in, []byte("monitoring:")) || bytes.HasPrefix(out, []byte("refused:"))
	})
}

// takesMonitor has the API server say whether a monitor is as its definition has it, unknown fields included.
func takesMonitor(t *testing.T, namespace, where string, monitor *unstructured.Unstructured) {
	t.Helper()
	monitor.SetNamespace(namespace)
	monitor.SetOwnerReferences(nil)
	err := env.Client.Create(t.Context(), monitor, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if err != nil {
		t.Errorf("%s: %s %s is refused: %v", where, monitor.GetKind(), monitor.GetName(), err)
	}
}

// What the engine and the charts make for a Prometheus is what the Prometheus Operator's own definitions take: of each
// plugin that has metrics in a case of its tests, and of an operator itself.
func TestMonitorsFitTheirDefinitions(t *testing.T) {
	installMonitors(t)
	namespace := env.Namespace(t)
	group := schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}.String()
	zictl := filepath.Join(t.TempDir(), "zictl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", zictl, "./cmd/zictl")
	build.Dir = filepath.Join(root(), "platform-core")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build zictl: %v: %s", err, out)
	}
	plugins := map[string]bool{}
	for _, path := range watched(t) {
		for _, object := range becomes(t, zictl, path) {
			if object.GetAPIVersion() == group {
				plugins[filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(path))))] = true
				takesMonitor(t, namespace, path, object)
			}
		}
	}
	for _, plugin := range []string{"etcd", "minio", "nginx", "postgresql", "redis"} {
		if !plugins[plugin] {
			t.Errorf("no case of plugin %s has a PodMonitor", plugin)
		}
	}
	kinds := map[string]bool{}
	for _, object := range render(t, chartName, namespace, "podMonitor.enabled=true", "serviceMonitor.enabled=true") {
		if object.GetAPIVersion() == group {
			kinds[object.GetKind()] = true
			takesMonitor(t, namespace, "chart "+chartName, object)
		}
	}
	if !kinds["PodMonitor"] || !kinds["ServiceMonitor"] {
		t.Errorf("the chart makes %v", kinds)
	}
}
