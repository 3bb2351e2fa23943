// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// newInference returns an Inference of version 0.7 whose spec has what the YAML adds.
func newInference(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	kind := aiv1.GroupVersion.WithKind("Inference")
	return testkit.Object(t, kind, namespace, name,
		map[string]any{"version": "0.7", "modelRef": map[string]any{"name": "chat", "stage": "Production"}}, spec)
}

// inferences are specs, and what is said of those that are wrong.
var inferences = map[string]struct{ name, spec, want string }{
	"smallest":                    {"a", ``, ""},
	"longest name":                {strings.Repeat("a", 28), ``, ""},
	"name too long":               {strings.Repeat("a", 28+1), ``, "at most 28 characters"},
	"name with a dot":             {"a.b", ``, "cannot hold a dot"},
	"version":                     {"b", `version: latest`, "spec.version"},
	"no version":                  {"b", `version: null`, "version is required"},
	"plugin version":              {"b", `pluginVersion: "1"`, "spec.pluginVersion"},
	"a field that does not exist": {"b", `members: 3`, "spec.members"},
	"storage":                     {"b", `storage: {size: 20Gi}`, "take storage out"},
	"volumes of another one":      {"b", `adoptVolumes: 6f2c1c1e-55b4-4a0e-9f0c-0f6f0a0d8a11`, "take adoptVolumes out"},
	"data of a Backup":            {"b", `restoreFrom: {backup: a}`, "take restoreFrom out"},
	"volumes that are deleted":    {"b", `deletionPolicy: Delete`, "deletionPolicy is of volumes"},
	"most replicas":               {"d", `replicas: 100`, ""},
	"too many replicas":           {"b", `replicas: 1001`, "spec.replicas"},
	"a version of the model":      {"e", `modelRef: {name: chat, version: "1.0"}`, ""},
	"no model":                    {"b", `modelRef: null`, "spec.modelRef"},
	"neither version nor stage": {"b", `modelRef: {name: chat, version: null, stage: null}`,
		"exactly one of version and stage"},
	"version and stage": {"b", `modelRef: {name: chat, version: "1.0", stage: Production}`,
		"exactly one of version and stage"},
	"unknown stage":       {"b", `modelRef: {name: chat, stage: Canary}`, "spec.modelRef.stage"},
	"another runtime":     {"t", `{runtime: onnxruntime, version: "1.21"}`, ""},
	"no name of a plugin": {"b", `runtime: vLLM`, "spec.runtime"},
	"time of tokens of another runtime": {"tokens", `{runtime: vllm, version: "0.9", canary: {modelRef: ` +
		`{name: chat, version: v2}, steps: [{weight: 10, pause: 5m}], gate: {maxTimePerToken: 1s}}}`, ""},
	"error rate of another runtime": {"rate", `{runtime: onnxruntime, version: "1.21", canary: {modelRef: ` +
		`{name: chat, version: v2}, steps: [{weight: 10, pause: 5m}], gate: {maxErrorRate: 5}}}`, ""},
	"time of requests of another runtime": {"time", `{runtime: onnxruntime, version: "1.21", canary: {modelRef: ` +
		`{name: chat, version: v2}, steps: [{weight: 10, pause: 5m}], gate: {maxTimePerRequest: 200ms}}}`, ""},
	"requests take too long": {"b", `{runtime: onnxruntime, canary: {modelRef: {name: chat, version: v2}, ` +
		`steps: [{weight: 10, pause: 5m}], gate: {maxTimePerRequest: 61m}}}`, "from 1us to 1h"},
	"no autoscaling":          {"f", `{minReplicas: 0, maxReplicas: 0}`, ""},
	"autoscaling":             {"g", `{replicas: 2, minReplicas: 1, maxReplicas: 3, cpuUtilization: 50}`, ""},
	"smallest alone":          {"b", `minReplicas: 1`, "set minReplicas and maxReplicas together"},
	"to zero":                 {"b", `{minReplicas: 0, maxReplicas: 3}`, "set minReplicas and maxReplicas together"},
	"smallest above largest":  {"b", `{minReplicas: 3, maxReplicas: 2}`, "minReplicas cannot be above maxReplicas"},
	"replicas above largest":  {"b", `{replicas: 4, minReplicas: 1, maxReplicas: 3}`, "replicas must be between"},
	"replicas below smallest": {"b", `{replicas: 1, minReplicas: 2, maxReplicas: 3}`, "replicas must be between"},
	"no replicas":             {"b", `replicas: 0`, "spec.replicas"},
	"utilization of nothing":  {"b", `cpuUtilization: 50`, "cpuUtilization is for autoscaling"},
	"memory":                  {"q", `{minReplicas: 1, maxReplicas: 3, memoryUtilization: 80}`, ""},
	"memory of nothing":       {"b", `memoryUtilization: 80`, "memoryUtilization is for autoscaling"},
	"metrics": {"u", `{minReplicas: 1, maxReplicas: 3, monitoring: {enabled: true}, metrics: [{name: ` +
		`"llamacpp:requests_processing", averageValue: 800m}, {name: a, averageValue: 2}]}`, ""},
	"metrics of nothing": {"b", `{monitoring: {enabled: true}, metrics: [{name: a, averageValue: 2}]}`,
		"metrics are for autoscaling"},
	"metrics that nobody reads": {"b", `{minReplicas: 1, maxReplicas: 3, metrics: [{name: a, averageValue: 2}]}`,
		"set monitoring.enabled"},
	"metrics behind a key, for autoscaling": {"mk", `{apiKeySecretRef: {name: k}, minReplicas: 1, maxReplicas: 3, ` +
		`monitoring: {enabled: true}, metrics: [{name: a, averageValue: 2}]}`, ""},
	"no metrics": {"b", `{minReplicas: 1, maxReplicas: 3, monitoring: {enabled: true}, metrics: []}`, "spec.metrics"},
	"a metric twice": {"b", `{minReplicas: 1, maxReplicas: 3, monitoring: {enabled: true}, ` +
		`metrics: [{name: a, averageValue: 2}, {name: a, averageValue: 3}]}`, "spec.metrics[1]"},
	"a metric of 0": {"b", `{minReplicas: 1, maxReplicas: 3, monitoring: {enabled: true}, ` +
		`metrics: [{name: a, averageValue: 0}]}`, "averageValue must be greater than 0"},
	"a metric with a dash": {"b", `{minReplicas: 1, maxReplicas: 3, monitoring: {enabled: true}, ` +
		`metrics: [{name: a-b, averageValue: 1}]}`, "spec.metrics[0].name"},
	"adapters": {"s",
		`adapters: [{name: poet, version: "1.0", scale: 0}, {name: cook, stage: Production}]`, ""},
	"an adapter twice": {"b", `adapters: [{name: poet, version: "1.0"}, {name: poet, version: "2.0"}]`,
		"spec.adapters[1]"},
	"an adapter alone": {"b", `adapters: [{name: poet}]`, "exactly one of version and stage"},
	"an adapter by a negative scale": {"b", `adapters: [{name: poet, version: "1.0", scale: -1}]`,
		"spec.adapters[0].scale"},
	"datasets": {"r", `datasets: [{name: a, version: "1.0"}, {name: b, version: "1.0"}]`, ""},
	"a dataset twice": {"b",
		`datasets: [{name: a, version: "1.0"}, {name: a, version: "2.0"}]`, "spec.datasets[1]"},
	"a dataset alone":       {"b", `datasets: [{name: a}]`, "spec.datasets[0].version"},
	"GPUs":                  {"h", `gpus: {resourceName: nvidia.com/gpu}`, ""},
	"GPUs without a domain": {"b", `gpus: {resourceName: gpu}`, "spec.gpus.resourceName"},
	"GPUs twice": {"b",
		`{gpus: {resourceName: nvidia.com/gpu}, resources: {limits: {nvidia.com/gpu: 1}}}`,
		"gpus and resources.limits name the same resource"},
	"GPUs of another runtime": {"gpus", `{runtime: vllm, gpus: {resourceName: nvidia.com/gpu}}`, ""},
	"an amount of GPU memory": {"b", `gpus: {resourceName: nvidia.com/gpu, memory: 8Gi}`, "spec.gpus.memory"},
	"health check":            {"i", `healthCheck: {path: /health, interval: 10s, timeout: 1s}`, ""},
	"health path":             {"b", `healthCheck: {path: health}`, "spec.healthCheck.path"},
	"health interval":         {"b", `healthCheck: {interval: 500ms}`, "whole seconds"},
	"health interval of 0":    {"b", `healthCheck: {interval: 0s}`, "whole seconds from 1s to 1h"},
	"health timeout":          {"b", `healthCheck: {timeout: 31s}`, "from 1s to 30s"},
	"health path behind the key": {"b", `{apiKeySecretRef: {name: k}, healthCheck: {path: /slots}}`,
		"other paths are behind the API key"},
	"health path before the key": {"k", `{apiKeySecretRef: {name: k}, healthCheck: {path: /v1/health}}`, ""},
	"drain":                      {"l", `drainTimeout: 5m`, ""},
	"no drain":                   {"m", `drainTimeout: 0s`, ""},
	"drain of an hour":           {"b", `drainTimeout: 1h`, "drainTimeout must be whole seconds, at most 5m"},
	"drain as a parameter":       {"b", `parameters: {drain.timeout: 5s}`, "are set by the fields"},
	"idle":                       {"v", `idle: {after: 1m, maxWaiting: 1000, maxWait: 1h, doors: 3}`, ""},
	"idle by default": {"w", `{idle: {}, minReplicas: 1, maxReplicas: 3, httpRoute: {host: a, gateway: b}}`,
		""},
	"idle after no time": {"b", `idle: {after: 30s}`, "idle.after must be whole seconds from 1m to 24h"},
	"idle for a day":     {"b", `idle: {after: 25h}`, "idle.after must be whole seconds from 1m to 24h"},
	"no waiting":         {"b", `idle: {maxWaiting: 0}`, "spec.idle.maxWaiting"},
	"no wait":            {"b", `idle: {maxWait: 0s}`, "idle.maxWait must be whole seconds from 1s to 1h"},
	"part of a second":   {"b", `idle: {maxWait: 1500ms}`, "idle.maxWait must be whole seconds from 1s to 1h"},
	"many doors":         {"b", `idle: {doors: 4}`, "spec.idle.doors"},
	"idle with a canary": {"b", `{idle: {}, canary: {modelRef: {name: chat, stage: Staging}, weight: 10}}`,
		"take idle out until the canary is over"},
	"a canary": {"n", `canary: {modelRef: {name: chat, stage: Staging}, weight: 10}`, ""},
	"a canary without a weight": {"b", `canary: {modelRef: {name: chat, stage: Staging}}`,
		"exactly one of weight and steps"},
	"steps": {"o", `canary: {modelRef: {name: chat, version: v2}, steps: [{weight: 10, pause: ` +
		`5m}], gate: {maxErrorRate: 5, maxTimePerToken: 50us}}`, ""},
	"weight and steps": {"b", `canary: {modelRef: {name: chat, version: v2}, weight: 10, steps: [{weight: 10, ` +
		`pause: 5m}]}`, "exactly one of weight and steps"},
	"no steps": {"b", `canary: {modelRef: {name: chat, version: v2}, steps: []}`, "spec.canary.steps"},
	"a step of nothing": {"b", `canary: {modelRef: {name: chat, version: v2}, steps: [{weight: 0, pause: 5m}]}`,
		"spec.canary.steps[0].weight"},
	"a step without an end": {"b",
		`canary: {modelRef: {name: chat, version: v2}, steps: [{weight: 10, pause: 169h}]}`, "from 0s to 168h"},
	"steps of a stage": {"b", `canary: {modelRef: {name: chat, stage: Staging}, steps: [{weight: 10, pause: ` +
		`5m}]}`, "set version"},
	"a gate without steps": {"b", `canary: {modelRef: {name: chat, version: v2}, weight: 10, gate: {maxErrorRate: ` +
		`5}}`, "gate is for steps"},
	"all may fail": {"b", `canary: {modelRef: {name: chat, version: v2}, steps: [{weight: 10, pause: ` +
		`5m}], gate: {maxErrorRate: 100}}`, "maxErrorRate"},
	"a gate behind the key": {"gk", `{apiKeySecretRef: {name: k}, canary: {modelRef: {name: chat, version: v2}, ` +
		`steps: [{weight: 10, pause: 5m}], gate: {maxErrorRate: 5}}}`, ""},
	"a start behind the key": {"p", `{apiKeySecretRef: {name: k}, canary: {modelRef: {name: chat, version: v2}, ` +
		`steps: [{weight: 10, pause: 5m}], gate: {startTimeout: 1m}}}`, ""},
	"a gate behind a wall": {"b", `{networkPolicy: {from: [{podSelector: {}}]}, canary: {modelRef: {name: chat, ` +
		`version: v2}, steps: [{weight: 10, pause: 5m}], gate: {maxTimePerToken: 1s}}}`,
		"keeps the operator from measuring"},
	"time of requests behind a wall": {"b", `{runtime: onnxruntime, networkPolicy: {from: [{podSelector: {}}]}, canary: ` +
		`{modelRef: {name: chat, version: v2}, steps: [{weight: 10, pause: 5m}], gate: {maxTimePerRequest: 1s}}}`,
		"keeps the operator from measuring"},
	"more than all": {"b", `canary: {modelRef: {name: chat, stage: Staging}, weight: 101}`,
		"spec.canary.weight"},
	"less than nothing": {"b", `canary: {modelRef: {name: chat, stage: Staging}, weight: -1}`,
		"spec.canary.weight"},
	"a canary of nothing":       {"b", `canary: {weight: 10}`, "spec.canary.modelRef"},
	"a parameter of the engine": {"b", `parameters: {model.url: "http://a"}`, "are set by the fields"},
	"TLS":                       {"b", `tls: {enabled: true, issuerRef: {name: ca}}`, "take tls out"},
	"metrics behind a key":      {"mon", `{apiKeySecretRef: {name: k}, monitoring: {enabled: true}}`, ""},
	"a key":                     {"j", `apiKeySecretRef: {name: k, key: apiKey}`, ""},
	"ingress without a host":    {"b", `ingress: {className: nginx}`, "spec.ingress.host"},
	"a route without a Gateway": {"b", `httpRoute: {host: a.example.com}`, "spec.httpRoute.gateway"},
	"a host with a scheme":      {"b", `ingress: {host: "https://a.example.com"}`, "spec.ingress.host"},
}

func TestInferenceCreate(t *testing.T) {
	namespace := env.Namespace(t)
	for title, c := range inferences {
		t.Run(title, func(t *testing.T) {
			err := env.Client.Create(t.Context(), newInference(t, namespace, c.name, c.spec), testkit.Strict)
			testkit.Refused(t, err, c.want)
		})
	}
}

func TestInferenceRuntimeIsImmutable(t *testing.T) {
	obj := newInference(t, env.Namespace(t), "a", ``)
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	changed := newInference(t, obj.GetNamespace(), "a", `runtime: onnxruntime`)
	changed.SetResourceVersion(obj.GetResourceVersion())
	testkit.Refused(t, env.Client.Update(t.Context(), changed), "runtime is immutable")
}

// What the sample and the tests of Compile have can be applied.
func TestInferenceSamplesApply(t *testing.T) {
	namespace := env.Namespace(t)
	testkit.Samples(t, env.Client, namespace, "../../config/samples/*_v1_inference.yaml")
	testkit.Samples(t, env.Client, namespace, "../../internal/kind/inference/testdata/*.in.yaml")
}
