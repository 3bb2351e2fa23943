// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// meters are what the plugin of a runtime names in annotations of its pods to measure them by: lists of metrics, and a
// request that the operator makes.
type meters struct {
	requests, failed, requestSeconds string
	tokens, tokenSeconds             string
	testPath, testBody               string
}

// metersOf reads the annotations of a pod, or of its template.
func metersOf(annotations map[string]string) meters {
	return meters{
		requests: annotations[aiv1.RequestsMetricAnnotation], failed: annotations[aiv1.FailedRequestsMetricAnnotation],
		requestSeconds: annotations[aiv1.RequestSecondsMetricAnnotation],
		tokens:         annotations[aiv1.TokensMetricAnnotation],
		tokenSeconds:   annotations[aiv1.TokenSecondsMetricAnnotation],
		testPath:       annotations[aiv1.TestRequestPathAnnotation], testBody: annotations[aiv1.TestRequestBodyAnnotation],
	}
}

// countsFailures says whether the server counts the requests that failed.
func (m *meters) countsFailures() bool { return m.requests != "" && m.failed != "" }

// timesRequests says whether it counts the seconds that requests took.
func (m *meters) timesRequests() bool { return m.requests != "" && m.requestSeconds != "" }

// timesTokens says whether it counts the seconds that tokens took.
func (m *meters) timesTokens() bool { return m.tokens != "" && m.tokenSeconds != "" }

// bound is one of those that a gate can have.
type bound struct {
	field string
	// set says whether the gate has it, and measured whether the plugin says how it is measured.
	set, measured bool
	// needs are the annotations that say so.
	needs string
}

// boundsOf are all bounds of a gate.
func boundsOf(gate *aiv1.InferenceCanaryGate, m *meters) []bound {
	return []bound{
		{"maxErrorRate", gate.MaxErrorRate != nil, m.countsFailures() || m.testPath != "",
			fmt.Sprintf("%s with %s, nor %s", aiv1.RequestsMetricAnnotation, aiv1.FailedRequestsMetricAnnotation,
				aiv1.TestRequestPathAnnotation)},
		{"maxTimePerToken", gate.MaxTimePerToken != nil, m.timesTokens(),
			fmt.Sprintf("%s with %s", aiv1.TokensMetricAnnotation, aiv1.TokenSecondsMetricAnnotation)},
		{"maxTimePerRequest", gate.MaxTimePerRequest != nil, m.timesRequests(),
			fmt.Sprintf("%s with %s", aiv1.RequestsMetricAnnotation, aiv1.RequestSecondsMetricAnnotation)},
	}
}

// unmeasurable says why the gate of a canary cannot be measured, and what to do; empty where it can.
func unmeasurable(i *aiv1.Inference, m *meters, plugin platformv1.PluginReference) string {
	gate := i.Spec.Canary.Gate
	if gate == nil {
		return ""
	}
	var possible []string
	var lacking *bound
	for _, b := range boundsOf(gate, m) {
		switch {
		case b.measured:
			possible = append(possible, b.field)
		case b.set && lacking == nil:
			lacking = &b
		}
	}
	if lacking == nil {
		return ""
	}
	instead := ""
	if len(possible) > 0 {
		instead = ", and measure by " + strings.Join(possible, " and ")
	}
	return fmt.Sprintf("spec.canary.gate.%s cannot be measured: the pod template of the plugin %q %s has no annotations "+
		"%s: take it out%s, or name a version of the plugin that has them", lacking.field, plugin.Name, plugin.Version,
		lacking.needs, instead)
}

// annotationsOf are those of the pods of a set.
func annotationsOf(set *platformv1.WorkloadSet) (map[string]string, error) {
	var template struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(set.Spec.Template.Raw, &template); err != nil {
		return nil, fmt.Errorf("cannot read the template of WorkloadSet %q: %w", set.Name, err)
	}
	return template.Annotations, nil
}
