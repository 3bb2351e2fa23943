// SPDX-License-Identifier: Apache-2.0

//go:build integration

package v1_test

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Each rule of a ZerfooInferenceService is one of an Inference: what breaks it is refused with the reason Invalid, and
// a cause that names the field.
func TestRulesOfAZerfooInferenceService(t *testing.T) {
	namespace := env.Namespace(t)
	for rule, c := range map[string]struct{ spec, field string }{
		"modelRef is required":             {`modelRef: null`, "spec.modelRef"},
		"modelRef is not empty":            {`modelRef: {name: "", version: "1.0"}`, "spec.modelRef.name"},
		"replicas is at least 1":           {`replicas: 0`, "spec.replicas"},
		"replicas is not negative":         {`replicas: -1`, "spec.replicas"},
		"minReplicas is below maxReplicas": {`{minReplicas: 3, maxReplicas: 2}`, "spec.minReplicas"},
		"canary.modelRef is required":      {`canary: {weight: 10}`, "spec.canary.modelRef"},
		"canary.modelRef is not empty": {
			`canary: {modelRef: {name: "", version: "1.0"}, weight: 10}`, "spec.canary.modelRef.name"},
		"canary.weight is at least 0": {
			`canary: {modelRef: {name: chat, version: "1.0"}, weight: -1}`, "spec.canary.weight"},
		"canary.weight is at most 100": {
			`canary: {modelRef: {name: chat, version: "1.0"}, weight: 101}`, "spec.canary.weight"},
		"healthCheck.path is not empty":        {`healthCheck: {path: ""}`, "spec.healthCheck.path"},
		"healthCheck.interval is above 0":      {`healthCheck: {interval: 0s}`, "spec.healthCheck.interval"},
		"healthCheck.interval is not negative": {`healthCheck: {interval: -5s}`, "spec.healthCheck.interval"},
		"healthCheck.timeout is above 0":       {`healthCheck: {timeout: 0s}`, "spec.healthCheck.timeout"},
	} {
		t.Run(rule, func(t *testing.T) {
			err := env.Client.Create(t.Context(), newInference(t, namespace, "a", c.spec), testkit.Strict)
			status, is := errors.AsType[*apierrors.StatusError](err)
			if !is || !apierrors.IsInvalid(err) || !slices.ContainsFunc(status.ErrStatus.Details.Causes,
				func(cause metav1.StatusCause) bool { return cause.Field == c.field }) {
				t.Errorf("got %v; want that %s is invalid", err, c.field)
			}
		})
	}
}
