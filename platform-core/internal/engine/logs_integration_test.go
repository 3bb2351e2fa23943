// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The class of the volumes that access logs are on changes in no one edit. What is done in two is for the engine to
// judge, by the claims that there are.
func TestClassOfLogsIsImmutable(t *testing.T) {
	app := application(env.Namespace(t))
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ logs, refused string }{
		{`{"volume":{"size":"1Gi","storageClassName":"a"}}`, ""},
		{`{"volume":{"size":"2Gi","storageClassName":"a"}}`, ""},
		{`{"volume":{"size":"2Gi","storageClassName":"b"}}`, "logs.volume.storageClassName is immutable"},
		{`{"volume":{"size":"2Gi"}}`, "logs.volume.storageClassName is immutable"},
		{`null`, ""},
		{`{"volume":{"size":"2Gi"}}`, ""},
		{`{"volume":{"size":"2Gi","storageClassName":"b"}}`, "logs.volume.storageClassName is immutable"},
		{`{}`, ""},
		{`{"volume":{"size":"2Gi","storageClassName":"b"}}`, ""},
	} {
		// All fields: a merge patch would keep those of before.
		body := `[{"op":"add","path":"/spec/components","value":[{"name":"redis","logs":` + step.logs + `}]}]`
		err := env.Client.Patch(t.Context(), app, client.RawPatch(types.JSONPatchType, []byte(body)))
		if refused := apierrors.IsInvalid(err) && step.refused != "" &&
			strings.Contains(err.Error(), step.refused); err != nil && !refused || err == nil && step.refused != "" {
			t.Errorf("logs %s: %v, want %q", step.logs, err, step.refused)
		}
	}
}
