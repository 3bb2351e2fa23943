// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Each field of a ZerfooInferenceService has a home in an Inference, and reaches the component of the Application.
func TestFieldsOfAZerfooInferenceService(t *testing.T) {
	for field, c := range map[string]struct{ spec, at, want string }{
		"modelRef":                  {`{}`, "parameters|model.sha256", strings.Repeat("1", 64)},
		"replicas":                  {`replicas: 3`, "replicas", "3"},
		"minReplicas":               {`{minReplicas: 2, maxReplicas: 4}`, "autoscaling|minReplicas", "2"},
		"maxReplicas":               {`{minReplicas: 2, maxReplicas: 4}`, "autoscaling|maxReplicas", "4"},
		"maxReplicas of 0":          {`{replicas: 3, minReplicas: 0, maxReplicas: 0}`, "autoscaling", ""},
		"replicas of an autoscaler": {`{replicas: 3, minReplicas: 2, maxReplicas: 4}`, "replicas", ""},
		"resources.cpu":             {`resources: {requests: {cpu: 250m}}`, "resources|requests|cpu", "250m"},
		"resources.memory":          {`resources: {limits: {memory: 2Gi}}`, "resources|limits|memory", "2Gi"},
		"resources.gpuMemory, as a count": {
			`gpus: {resourceName: nvidia.com/gpu, count: 2}`, "resources|limits|nvidia.com/gpu", "2"},
		"resources.gpuMemory, as a slice": {
			`gpus: {resourceName: nvidia.com/mig-1g.10gb}`, "resources|limits|nvidia.com/mig-1g.10gb", "1"},
		"canary.modelRef": {
			`{replicas: 4, canary: {modelRef: {name: chat, version: "4.0"}, weight: 25}}`,
			"sets|1|parameters|model.sha256", strings.Repeat("4", 64)},
		"canary.weight": {
			`{replicas: 4, canary: {modelRef: {name: chat, version: "4.0"}, weight: 25}}`, "sets|1|replicas", "1"},
		"canary.weight of the others": {
			`{replicas: 4, canary: {modelRef: {name: chat, version: "4.0"}, weight: 25}}`, "sets|0|replicas", "3"},
		"healthCheck.path":     {`healthCheck: {path: /v1/health}`, "parameters|health.path", "/v1/health"},
		"healthCheck.interval": {`healthCheck: {interval: 1m}`, "parameters|health.interval", "60s"},
		"healthCheck.timeout":  {`healthCheck: {timeout: 3s}`, "parameters|health.timeout", "3s"},
	} {
		t.Run(field, func(t *testing.T) {
			i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Name: "chat", Namespace: "shop"}}
			i.Spec.ModelRef = aiv1.InferenceModelReference{Name: "chat", Version: "1.0"}
			if err := yaml.UnmarshalStrict([]byte(c.spec), &i.Spec); err != nil {
				t.Fatal(err)
			}
			if got := inComponent(t, i, c.at); got != c.want {
				t.Errorf("the component has %q at %s; want %q", got, c.at, c.want)
			}
		})
	}
}

// inComponent is what the component of the Application of an Inference has at a path, whose parts are divided by bars.
// It is empty where there is nothing.
func inComponent(t *testing.T, i *aiv1.Inference, path string) string {
	t.Helper()
	out, err := compiled(i, modelNamed("chat"))
	if err != nil {
		t.Fatal(err)
	}
	component, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&out.Application.Spec.Components[0])
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(path, "|")
	if parts[0] == "sets" {
		sets, _, _ := unstructured.NestedSlice(component, "sets")
		var index int
		if _, err := fmt.Sscan(parts[1], &index); err != nil || index >= len(sets) {
			t.Fatalf("there are %d sets, and not one at %s (%v)", len(sets), parts[1], err)
		}
		component, parts = sets[index].(map[string]any), parts[2:]
	}
	value, found, err := unstructured.NestedFieldNoCopy(component, parts...)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return ""
	}
	return fmt.Sprint(value)
}

// So has each of its status; the message is that of the condition Ready, as for every instance.
func TestStatusOfAZerfooInferenceService(t *testing.T) {
	i, app := &aiv1.Inference{}, &platformv1.Application{}
	app.Status.Ready = "1/2"
	app.Status.Components = []platformv1.ComponentState{
		{Name: "server", Pods: []platformv1.PodState{{Name: "a"}, {Name: "b"}}}}
	Kind{}.Report(i, app)
	if i.Status.Ready != "1/2" || i.Status.Replicas != 2 {
		t.Errorf("got ready %q and replicas %d; want 1/2 and 2", i.Status.Ready, i.Status.Replicas)
	}
}
