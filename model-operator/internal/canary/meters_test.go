// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"maps"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// gates have one bound each.
var gates = map[string]aiv1.InferenceCanaryGate{
	"maxErrorRate":      {MaxErrorRate: new(int32(5))},
	"maxTimePerToken":   {MaxTimePerToken: &metav1.Duration{Duration: 1}},
	"maxTimePerRequest": {MaxTimePerRequest: &metav1.Duration{Duration: 1}},
}

// refusal is what is said of a gate with one bound.
func refusal(field string, annotations map[string]string) string {
	i := &aiv1.Inference{Spec: aiv1.InferenceSpec{Canary: &aiv1.InferenceCanary{Gate: new(gates[field])}}}
	return unmeasurable(i, new(metersOf(annotations)), platformv1.PluginReference{Name: "triton", Version: "2.0.0"})
}

// A gate that the plugin names nothing for is refused, with what can be done.
func TestUnmeasurable(t *testing.T) {
	requests, failed, seconds := aiv1.RequestsMetricAnnotation, aiv1.FailedRequestsMetricAnnotation,
		aiv1.RequestSecondsMetricAnnotation
	tokens, tokenSeconds := aiv1.TokensMetricAnnotation, aiv1.TokenSecondsMetricAnnotation
	for name, c := range map[string]struct {
		field string
		has   []string
		want  string
	}{
		"counters":       {"maxErrorRate", []string{requests, failed}, ""},
		"a test request": {"maxErrorRate", []string{aiv1.TestRequestPathAnnotation}, ""},
		"one counter": {"maxErrorRate", []string{requests},
			`spec.canary.gate.maxErrorRate cannot be measured: the pod template of the plugin "triton" 2.0.0`},
		"seconds": {"maxTimePerRequest", []string{requests, seconds}, ""},
		"no seconds": {"maxTimePerRequest", []string{requests, failed},
			"take it out, and measure by maxErrorRate, or"},
		"seconds of what": {"maxTimePerRequest", []string{seconds},
			"take it out, or name a version of the plugin that has them"},
		"tokens": {"maxTimePerToken", []string{tokens, tokenSeconds}, ""},
		"seconds of tokens": {"maxTimePerToken", []string{tokens, requests, failed, seconds},
			"measure by maxErrorRate and maxTimePerRequest"},
	} {
		annotations := map[string]string{}
		for _, annotation := range c.has {
			annotations[annotation] = "a_total"
		}
		if got := refusal(c.field, annotations); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := unmeasurable(&aiv1.Inference{Spec: aiv1.InferenceSpec{Canary: &aiv1.InferenceCanary{}}}, &meters{},
		platformv1.PluginReference{}); got != "" {
		t.Errorf("without a gate: %q", got)
	}
}

// What the plugins that are shipped can measure is what their page says.
func TestShippedPlugins(t *testing.T) {
	for plugin, want := range map[string]map[string]bool{
		"llama-cpp":   {"maxErrorRate": true, "maxTimePerToken": true, "maxTimePerRequest": false},
		"onnxruntime": {"maxErrorRate": true, "maxTimePerToken": false, "maxTimePerRequest": true},
	} {
		text, err := os.ReadFile("../../plugins/" + plugin + "/1.0.0/podtemplates/server.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var template struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal(text, &template); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for field := range gates {
			got[field] = refusal(field, template.Metadata.Annotations) == ""
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s measures %v, want %v", plugin, got, want)
		}
	}
}
