// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind"
)

// "kubectl get models" shows all versions and stages, as the API server prints them.
func TestColumnsOfAModel(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	kube, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	m := modelOf(namespace, "chat")
	slices.SortFunc(m.Spec.Versions, func(a, b aiv1.ModelVersion) int { return cmp.Compare(a.Name, b.Name) })
	m.Spec.Stages = map[aiv1.ModelStage]aiv1.ModelVersionName{"Staging": "2.0", "Archived": "1.0"}
	create(t, m)
	testkit.WaitFor(t, env.Client, m, "is printed", func() error {
		data, err := kube.CoreV1().RESTClient().Get().
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			AbsPath("/apis", aiv1.GroupVersion.Group, aiv1.GroupVersion.Version).
			Namespace(namespace).Resource("models").Name(m.Name).DoRaw(t.Context())
		if err != nil {
			return err
		}
		var table metav1.Table
		if err := json.Unmarshal(data, &table); err != nil {
			return err
		}
		shown := map[string]string{}
		for n, column := range table.ColumnDefinitions {
			shown[column.Name] = fmt.Sprint(table.Rows[0].Cells[n])
		}
		if shown["Versions"] != "1.0, 2.0" || shown["Staging"] != "2.0" || shown["Archived"] != "1.0" ||
			shown["In-Use"] != "0" {
			return fmt.Errorf("the columns are %v", shown)
		}
		return nil
	})
	if err := env.Denied(env.System.User); err != nil {
		t.Error(err)
	}
}
