// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// compiled is an Operation whose template is shown as a tree.
type compiled struct {
	Labels      map[string]string        `json:"labels"`
	Annotations map[string]string        `json:"annotations"`
	Spec        platformv1.OperationSpec `json:"spec"`
	Template    any                      `json:"template"`
}

// Each field of a task is in a file of testdata, and the engine takes the template that comes of it.
func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(cj batchv1.CronJob) (any, error) {
		_, text, err := compile(&cj, enginetest.CheckTemplate)
		if err != nil {
			return nil, err
		}
		at := time.Date(2027, 1, 1, 2, 30, 0, 0, time.UTC)
		op := operationOf(&cj, text, creation{name: nameOf(&cj, at), time: at, key: "uid/2027-01-01T02:30:00Z"})
		out := compiled{Labels: op.Labels, Annotations: op.Annotations, Spec: op.Spec}
		out.Spec.Template = ""
		return out, yaml.Unmarshal([]byte(text), &out.Template)
	})
}

// The webhook refuses what the controller would refuse.
func TestJudge(t *testing.T) {
	w := newWorld(t, nil)
	s := operator.ControllerSettings{CheckTemplate: enginetest.CheckTemplate}
	if err := (Kind{}).Judge(w.cj, s); err != nil {
		t.Error(err)
	}
	w.cj.Spec.Task.HTTP.URL = "ftp://example.com"
	if err := (Kind{}).Judge(w.cj, s); err == nil || err.Error() != "spec.task.http.url must begin with http:// or https://" {
		t.Errorf("the error is %v", err)
	}
}
