// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// An Inference has what its Model needs at least, or is refused with what it lacks.
func TestAnInferenceMeetsTheMinimumOfItsModel(t *testing.T) {
	const memory, gpus = `memory: 4Gi`, `gpus: 2`
	const runtime, release = `runtime: {name: llama-cpp}`, `runtime: {name: llama-cpp, version: "0.9"}`
	for title, c := range map[string]struct{ minimum, spec, want string }{
		"the runtime by default": {runtime, `version: "0.7"`, ""},
		"another runtime": {runtime, `{runtime: vllm, version: "0.7"}`, `spec.modelRef names Model "chat", whose ` +
			`spec.minimum asks for the runtime llama-cpp, and spec.runtime is vllm: create an Inference with that runtime`},
		"the first release":   {release, `version: "0.9"`, ""},
		"a later release":     {release, `version: "0.10"`, ""},
		"a part of a release": {release, `version: 0.9.1`, ""},
		"a major release":     {release, `version: "1"`, ""},
		"a release before": {release, `version: "0.7"`,
			`asks for version 0.9 of llama-cpp or later, and spec.version is 0.7: name a later version, or name another Model`},
		"a release of another runtime": {release, `{runtime: vllm, version: "1.0"}`, "asks for the runtime llama-cpp"},
		"the same release":             {`runtime: {name: llama-cpp, version: "1.0"}`, `version: "1"`, ""},
		"memory":                       {memory, `resources: {requests: {memory: 4096Mi}}`, ""},
		"a limit of memory":            {memory, `resources: {limits: {memory: 8Gi}}`, ""},
		"too little memory": {memory, `resources: {requests: {memory: 2Gi}, limits: {memory: 8Gi}}`, `asks for 4Gi of ` +
			`memory or more, and spec.resources requests 2Gi: set spec.resources.requests.memory to that or more`},
		"memory of the plugin": {memory, `{}`, "and spec.resources names no memory"},
		"GPUs":                 {gpus, `gpus: {resourceName: nvidia.com/gpu, count: 2}`, ""},
		"a slice":              {`gpus: 1`, `gpus: {resourceName: nvidia.com/mig-1g.10gb}`, ""},
		"too few GPUs": {gpus, `gpus: {resourceName: nvidia.com/gpu}`,
			"asks for 2 or more GPUs, and spec.gpus has 1: set spec.gpus.count to that or more"},
		"no GPUs":       {gpus, `{}`, "and spec.gpus has 0"},
		"the second":    {`{` + memory + `, ` + gpus + `}`, `resources: {requests: {memory: 4Gi}}`, "2 or more GPUs"},
		"nothing asked": {`{}`, `{}`, ""},
	} {
		m, i := modelNamed("chat"), withAdapters("1.0")
		m.Spec.Minimum = &aiv1.ModelMinimum{}
		for text, into := range map[string]any{c.minimum: m.Spec.Minimum, c.spec: &i.Spec} {
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Fatalf("%s: %v", title, err)
			}
		}
		_, err := withModel(i, m)
		refusal, refused := errors.AsType[*typed.Refusal](err)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v", title, err)
		case c.want != "" && (!refused || refusal.Reason != aiv1.ReasonMinimumNotMet ||
			!strings.Contains(refusal.Message, c.want)):
			t.Errorf("%s: got %v, want %q", title, err, c.want)
		}
	}
}

// What a canary or an adapter needs counts as well.
func TestAnInferenceMeetsTheMinimumOfAllItsModels(t *testing.T) {
	needy := func(m *aiv1.Model) *aiv1.Model {
		m.Spec.Minimum = &aiv1.ModelMinimum{GPUs: new(int32(1))}
		return m
	}
	adapted, canary := withAdapters("1.0", "1.0"), withCanary(2, "4.0", 50)
	canary.Spec.Canary.ModelRef.Name = "next"
	for want, c := range map[string]struct {
		i *aiv1.Inference
		m *aiv1.Model
		r typed.Reference
	}{
		`spec.adapters[0] names Model "poet", whose spec.minimum asks for 1 or more GPUs`: {
			adapted, needy(adapterOf(modelNamed("chat"), "poet")), adapterReference(adapted, 0)},
		`spec.canary.modelRef names Model "next", whose spec.minimum asks for 1 or more GPUs`: {
			canary, needy(modelNamed("next")), canaryReference(canary)},
	} {
		referents := typed.Referents{reference(c.i): modelNamed("chat"), c.r: c.m}
		if _, err := (Kind{}).CompileWith(c.i, referents); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		c.i.Spec.GPUs = &aiv1.InferenceGPUs{ResourceName: "nvidia.com/gpu"}
		if _, err := (Kind{}).CompileWith(c.i, referents); err != nil {
			t.Error(err)
		}
	}
}
