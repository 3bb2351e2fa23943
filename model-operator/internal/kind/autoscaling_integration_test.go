// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind"
)

// An Inference has its Application scale by metrics, and says what the autoscaler says of them. It is ready without.
func TestInferenceTellsOfItsAutoscaler(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	m := modelOf(namespace, "chat")
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "scaled"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}
	i.Spec.MinReplicas, i.Spec.MaxReplicas = 1, 3
	i.Spec.Monitoring = &platformv1.Monitoring{Enabled: true}
	i.Spec.Metrics = []platformv1.AutoscalingMetric{
		{Name: "llamacpp:requests_deferred", AverageValue: resource.MustParse("1500m")}}
	create(t, m, i)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-scaled"}}
	serves(t, app, "1")
	a := app.Spec.Components[0].Autoscaling
	if a == nil || a.CPUUtilization != nil || len(a.Metrics) != 1 || a.Metrics[0].Name != "llamacpp:requests_deferred" ||
		a.Metrics[0].AverageValue.String() != "1500m" {
		t.Errorf("the Application is scaled by %+v", a)
	}
	before := app.DeepCopy()
	conditions.Set(app, metav1.Condition{Type: platformv1.AutoscaledCondition, Status: metav1.ConditionFalse,
		Reason: platformv1.ReasonMetricsUnavailable, Message: "install an adapter"})
	if err := patch.Status(t.Context(), env.Client, before, app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, i, platformv1.AutoscaledCondition, metav1.ConditionFalse)
	if got := conditions.Get(i, platformv1.AutoscaledCondition); got.Reason != platformv1.ReasonMetricsUnavailable ||
		got.Message != "install an adapter" || !conditions.IsTrue(i, platformv1.ReadyCondition) {
		t.Errorf("Autoscaled is %+v, and all conditions are %+v", got, i.Status.Conditions)
	}
}
