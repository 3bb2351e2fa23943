// SPDX-License-Identifier: Apache-2.0

package kindtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Instance proves that suspend, operationHistory and each way of podDisruptionBudget reach the Application of an
// object, also when they change, and that its status tells of Backups what the Application does. The environment has
// to be as for DataProtection.
func Instance(t *testing.T, env *testkit.Env, kept Kept) {
	namespace := env.Namespace(t)
	Serve(t, env, kept.Kind)
	obj, app := declare(t, env, kept, namespace, "instance")
	for _, step := range []struct{ set, budget, rest string }{
		{`{"suspend":true,"podDisruptionBudget":{"minAvailable":"50%"},"operationHistory":{"ttl":"720h","limit":7}}`,
			`{"minAvailable":"50%"}`, `true {"ttl":"720h0m0s","limit":7}`},
		{`{"suspend":false,"podDisruptionBudget":{"minAvailable":null,"disabled":true},"operationHistory":{"ttl":null}}`,
			`{"disabled":true}`, `false {"limit":7}`},
		{`{"podDisruptionBudget":{"disabled":null,"maxUnavailable":2},"operationHistory":null}`, `{"maxUnavailable":2}`,
			`false null`},
		{`{"podDisruptionBudget":null}`, `null`, `false null`},
	} {
		set(t, env.Client, obj, `{"spec":`+step.set+`}`)
		testkit.WaitFor(t, env.Client, app, "has "+step.set, func() error {
			history := fmt.Sprint(app.Spec.Suspend, " ", text(app.Spec.OperationHistory))
			if budget := text(app.Spec.Components[0].PodDisruptionBudget); budget != step.budget || history != step.rest {
				return fmt.Errorf("it has %s and %s", budget, history)
			}
			return nil
		})
	}
	both := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"podDisruptionBudget":{"minAvailable":1,"disabled":true}}}`))
	if err := env.Client.Patch(t.Context(), obj, both, client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("a budget that says two things is taken: %v", err)
	}

	at := metav1.Now().Rfc3339Copy()
	app.Status.ObservedGeneration = app.Generation
	app.Status.LastBackup = &platformv1.BackupRecord{Name: "nightly-1", CompletionTime: at}
	app.Status.LastVerifiedRestore = &platformv1.VerifiedRestore{Backup: "nightly-0", Operation: "drill", Time: at}
	if err := env.Client.Status().Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	told := &unstructured.Unstructured{}
	told.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	told.SetNamespace(namespace)
	told.SetName(obj.GetName())
	testkit.WaitFor(t, env.Client, told, "tells of its Backups", func() error {
		last, _, err := unstructured.NestedString(told.Object, "status", "lastBackup", "name")
		verified, _, more := unstructured.NestedString(told.Object, "status", "lastVerifiedRestore", "backup")
		if err := errors.Join(err, more); err != nil || last != "nightly-1" || verified != "nightly-0" {
			return fmt.Errorf("it tells of %q and %q: %w", last, verified, err)
		}
		return nil
	})
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}

// text is a value as JSON.
func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
