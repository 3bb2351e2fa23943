// SPDX-License-Identifier: Apache-2.0

//go:build charts

// These tests run the pinned Helm (make -C hack/tools helm) on charts/.
package charts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(root, "bin", "helm"), args...)
	command.Dir = filepath.Join(root, "charts")
	out, err := command.CombinedOutput()
	return string(out), err
}

// render returns the objects of a chart by kind.
func render(t *testing.T, args ...string) map[string][]map[string]any {
	t.Helper()
	out, err := helm(t, append([]string{"template", "release"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	objects := map[string][]map[string]any{}
	for _, document := range strings.Split("\n"+out, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if kind, ok := object["kind"].(string); ok {
			objects[kind] = append(objects[kind], object)
		}
	}
	return objects
}

func TestBadValues(t *testing.T) {
	for values, want := range map[string]string{
		"replica=2":       "'replica' not allowed",
		"replicas=11":     "maximum",
		"replicas=two":    "/replicas",
		"image.tg=x":      "'tg' not allowed",
		"image.tag=a b":   "/image/tag",
		"logLevel=loud":   "/logLevel",
		"logFormat=xml":   "/logFormat",
		"workers=0":       "/workers",
		"kubeApi.burst=5": "kubeApi.burst cannot be below kubeApi.qps",
		"clusterDomain=A": "/clusterDomain",
		"resources.cpu=1": "'cpu' not allowed",
		"replicas=2,leaderElection.enabled=false":                "replicas must be 1",
		"serviceMonitor.enabled=true":                            "monitoring.coreos.com/v1",
		"podMonitor.enabled=true":                                "monitoring.coreos.com/v1",
		"serviceMonitor.enabled=true,metrics.service.enabled=no": "/metrics/service/enabled",
	} {
		t.Run(values, func(t *testing.T) {
			out, err := helm(t, "template", "release", "database-operator", "--set", values)
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("got %v, want a refusal with %q:\n%s", err, want, out)
			}
		})
	}
}

func TestRender(t *testing.T) {
	for _, operator := range repo.Operators {
		t.Run(operator.Name(), func(t *testing.T) {
			small := render(t, operator.Name())
			for _, kind := range []string{"PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "CustomResourceDefinition"} {
				if len(small[kind]) > 0 {
					t.Errorf("%s is there by default", kind)
				}
			}
			checkDeployment(t, small["Deployment"], 1)
			checkRules(t, append(small["ClusterRole"], small["Role"]...))
			big := render(t, operator.Name(), "--values", operator.Name()+"/values-production.yaml")
			checkDeployment(t, big["Deployment"], 2)
			if len(big["PodDisruptionBudget"]) != 1 || len(big["NetworkPolicy"]) != 1 {
				t.Error("production values have no PodDisruptionBudget or no NetworkPolicy")
			}
		})
	}
}

func checkDeployment(t *testing.T, deployments []map[string]any, replicas float64) {
	t.Helper()
	if len(deployments) != 1 {
		t.Fatalf("there are %d Deployments, want 1", len(deployments))
	}
	text, err := yaml.Marshal(deployments[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false",
		"- ALL", "RuntimeDefault", "livenessProbe", "readinessProbe"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Deployment has no %q", want)
		}
	}
	if strings.Contains(string(text), "priorityClassName") {
		t.Error("the Deployment has a priority class, which some clouds admit in kube-system alone")
	}
	if got := deployments[0]["spec"].(map[string]any)["replicas"]; got != replicas {
		t.Errorf("replicas are %v, want %v", got, replicas)
	}
}

// checkRules refuses wildcards, and rules that Helm lost on the way.
func checkRules(t *testing.T, roles []map[string]any) {
	t.Helper()
	for _, role := range roles {
		text, err := yaml.Marshal(role["rules"])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "*") || !strings.Contains(string(text), "verbs:") {
			t.Errorf("%v has a wildcard or no rules:\n%s", role["metadata"], text)
		}
	}
}

func TestDefinitionsByAdministrator(t *testing.T) {
	for _, role := range render(t, "database-operator", "--set", "installCRDs=false")["ClusterRole"] {
		for _, rule := range role["rules"].([]any) {
			text, err := yaml.Marshal(rule)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "customresourcedefinitions") && strings.Contains(string(text), "patch") {
				t.Errorf("installCRDs is false, and yet:\n%s", text)
			}
		}
	}
	some := render(t, "platform-core", "--set", "operators={database}")["CustomResourceDefinition"]
	for _, definition := range some {
		metadata := definition["metadata"].(map[string]any)
		if metadata["annotations"].(map[string]any)["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%v goes with the release", metadata["name"])
		}
	}
	if core := render(t, "platform-core", "--set-json", "operators=[]")["CustomResourceDefinition"]; len(core) != 8 ||
		len(some) <= len(core) {
		t.Errorf("the chart has %d core definitions and %d with those of databases", len(core), len(some))
	}
}

// What Helm keeps of a release is a Secret, of which the API server takes 1 MiB at most: chart and objects, compressed
// and in base64.
func TestReleasesFit(t *testing.T) {
	const most = 700 << 10
	for _, operator := range repo.Operators {
		release, err := helm(t, "install", "release", operator.Name(), "--dry-run=client", "--output", "json")
		if err != nil {
			t.Fatalf("%v\n%s", err, release)
		}
		if !strings.HasPrefix(release, "{") || !strings.Contains(release, `"manifest":`) {
			t.Fatalf("this is no release of %s: %.200s", operator.Name(), release)
		}
		var compressed bytes.Buffer
		writer := gzip.NewWriter(&compressed)
		if _, err := io.WriteString(writer, release); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if size := base64.StdEncoding.EncodedLen(compressed.Len()); size > most {
			t.Errorf("a release of %s is a Secret of %d bytes: %d is the most", operator.Name(), size, most)
		}
	}
}

// Whatever a chart leaves out since another part has it, each ConfigMap of a plugin is rendered with all that was
// packaged.
func TestPluginsAreWhole(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, operator := range repo.Operators {
		files, err := filepath.Glob(filepath.Join(root, operator.Name(), "config/plugins/*-*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		rendered := map[string]any{}
		for _, object := range render(t, operator.Name())["ConfigMap"] {
			rendered[object["metadata"].(map[string]any)["name"].(string)] = object["data"]
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range strings.Split(string(content), separator) {
				var part struct {
					Metadata struct{ Name string }
					Data     map[string]any
				}
				if err := yaml.Unmarshal([]byte(document), &part); err != nil {
					t.Fatal(err)
				}
				is, _ := rendered[part.Metadata.Name].(map[string]any)
				if len(is) != len(part.Data) || len(is) > 0 && !reflect.DeepEqual(is, part.Data) {
					t.Errorf("chart %s renders %s otherwise than it was packaged", operator.Name(), part.Metadata.Name)
				}
			}
		}
	}
}

// What all pods get reaches the operator's flags.
func TestSettingsOfPods(t *testing.T) {
	deployment := text(t, render(t, "database-operator", "--set",
		"pods.imagePullSecrets[0].name=a,pods.imagePullSecrets[1].name=b",
		"--set-string", `pods.labels.sidecar\.istio\.io/inject=false`, "--set",
		`pods.annotations.linkerd\.io/inject=disabled`,
		"--set", "pods.agentCPULimit=500m,pods.jobCPULimit=2")["Deployment"][0])
	for _, want := range []string{
		"- --pod-image-pull-secrets=a,b\n", "- --pod-labels=sidecar.istio.io/inject=false\n",
		"- --pod-annotations=linkerd.io/inject=disabled\n",
		"- --agent-cpu-limit=500m\n", "- --job-cpu-limit=2\n",
	} {
		if !strings.Contains(deployment, want) {
			t.Errorf("the Deployment has no %q:\n%s", want, deployment)
		}
	}
	if plain := text(t, render(t, "database-operator")["Deployment"][0]); strings.Contains(plain, "--pod-") ||
		strings.Contains(plain, "-cpu-limit") {
		t.Errorf("the Deployment has settings of pods by default:\n%s", plain)
	}
	if out, err := helm(t, "template", "release", "database-operator", "--set", `pods.annotations.a=b\,c`); err == nil ||
		!strings.Contains(out, "/pods/annotations") {
		t.Errorf("an annotation with a comma gives %v\n%s", err, out)
	}
}
