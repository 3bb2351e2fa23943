// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"
	"github.com/zeroinfra/platform-core/sdk/transfer"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Each Dataset compiles to the template of its last version, which the engine takes.
func TestTemplates(t *testing.T) {
	testkit.Golden(t, "testdata", func(ds aiv1.Dataset) (any, error) {
		v := &ds.Spec.Versions[len(ds.Spec.Versions)-1]
		parent := &aiv1.DatasetVersionStatus{Claim: "dataset-digits.1.0", Path: "train"}
		text, err := compile("zeroinfra/agent:1", claimName(&ds, v.Name), v, sizeOf(&ds, v), parent)
		if err != nil {
			return nil, err
		}
		var template map[string]any
		if err := json.Unmarshal([]byte(text), &template); err != nil {
			return nil, err
		}
		return template, enginetest.CheckTemplate(text)
	})
}

// A pod of the agents that was refused is the last one, and one that was lost is not. A step of a user is tried again
// whatever its code is: nobody knows what it means.
func TestWhatIsRefusedIsNotTriedAgain(t *testing.T) {
	v := madeFrom("clean", "1.0")
	steps := append(made("agents", "claim", v.From, 1, &aiv1.DatasetVersionStatus{}), fetched("agents", "claim",
		new(web("1.0")), 1))
	for _, s := range steps {
		want := []int32{transfer.ExitRefused}
		if s.Container.Image != "agents" {
			want = nil
		}
		if got := s.Retry.ExceptExitCodes; s.Retry.Limit < 1 || !slices.Equal(got, want) {
			t.Errorf("step %s is not tried again after %v, want %v", s.Name, got, want)
		}
	}
}

// The webhook refuses what the controller would refuse, in the words of the spec.
func TestJudge(t *testing.T) {
	ds := &aiv1.Dataset{Spec: aiv1.DatasetSpec{Versions: []aiv1.DatasetVersion{web("1.0"), madeFrom("clean", "1.0")}}}
	s := operator.ControllerSettings{CheckTemplate: enginetest.CheckTemplate}
	if err := (Kind{}).Judge(ds, s); err != nil {
		t.Error(err)
	}
	ds.Spec.Versions[1].From.Steps[0].Resources = aiv1.DatasetResources{
		Requests: corev1.ResourceList{"memory": resource.MustParse("2Gi")},
		Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	err := (Kind{}).Judge(ds, s)
	if want := "spec.versions[clean].from.steps[0].resources"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %v, want one with %q", err, want)
	}
}
