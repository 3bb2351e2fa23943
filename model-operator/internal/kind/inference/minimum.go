// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/sdk/typed"
	"github.com/zeroinfra/platform-core/sdk/version"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// meets refuses an Inference that has less than a Model needs at least.
func meets(field string, i *aiv1.Inference, m *aiv1.Model) error {
	minimum := m.Spec.Minimum
	if minimum == nil {
		return nil
	}
	need, has, remedy := lacks(i, minimum)
	if need == "" {
		return nil
	}
	return typed.Refuse(aiv1.ReasonMinimumNotMet, fmt.Sprintf(
		"%s names Model %q, whose spec.minimum asks for %s, and %s: %s, or name another Model", field, m.Name, need, has,
		remedy))
}

// lacks says what an Inference has too little of, what it has, and what can be done; all are empty where it has all.
func lacks(i *aiv1.Inference, minimum *aiv1.ModelMinimum) (need, has, remedy string) {
	spec := &i.Spec
	if want := minimum.Runtime; want != nil {
		switch runtime := cmp.Or(spec.Runtime, instance.Plugin); {
		case runtime != want.Name:
			return "the runtime " + want.Name, "spec.runtime is " + runtime, "create an Inference with that runtime"
		case want.Version != "" && version.Compare(spec.Version, want.Version) < 0:
			return fmt.Sprintf("version %s of %s or later", want.Version, runtime), "spec.version is " + spec.Version,
				"name a later version"
		}
	}
	if want := minimum.Memory; want != nil {
		memory, found := spec.Resources.Requests[corev1.ResourceMemory]
		if !found {
			memory, found = spec.Resources.Limits[corev1.ResourceMemory]
		}
		said := "spec.resources requests " + memory.String()
		if !found {
			said = "spec.resources names no memory"
		}
		if memory.Cmp(*want) < 0 {
			return want.String() + " of memory or more", said, "set spec.resources.requests.memory to that or more"
		}
	}
	if want := minimum.GPUs; want != nil {
		count := int32(0)
		if spec.GPUs != nil {
			count = cmp.Or(spec.GPUs.Count, 1)
		}
		if count < *want {
			return fmt.Sprintf("%d or more GPUs", *want), fmt.Sprintf("spec.gpus has %d", count),
				"set spec.gpus.count to that or more"
		}
	}
	return "", "", ""
}
