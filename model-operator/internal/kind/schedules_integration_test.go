// SPDX-License-Identifier: Apache-2.0

//go:build integration

package kind_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/patch"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/kindtest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
	"github.com/zeroinfra/model-operator/internal/kind"
	"github.com/zeroinfra/model-operator/internal/kind/inference"
)

// scaledAt is a schedule that changes the number of pods.
func scaledAt(name string, line platformv1.CronLine, replicas string) platformv1.Schedule {
	return platformv1.Schedule{Name: name, Schedule: line, TimeZone: "Asia/Shanghai",
		Operation: platformv1.ScheduledOperation{TemplateRef: "HorizontalScale",
			Parameters: platformv1.Parameters{"component": "server",
				"replicas": platformv1.ParameterValue(replicas)}}}
}

// An Inference has more pods by day: its Application has the schedules, the status has their times, and what an
// Operation HorizontalScale writes of it is the number of its pods.
func TestInferenceIsScaledAtSetTimes(t *testing.T) {
	namespace := env.Namespace(t)
	kindtest.Serve(t, env, kind.All()...)
	i := &aiv1.Inference{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "daily"}}
	i.Spec.Version, i.Spec.ModelRef = "0.7", aiv1.InferenceModelReference{Name: "chat", Stage: "Production"}
	i.Spec.Schedules = []platformv1.Schedule{scaledAt("day", "0 8 * * 1-5", "4"), scaledAt("night", "0 20 * * *", "1")}
	create(t, modelOf(namespace, "chat"), i)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inference-daily"}}
	serves(t, app, "1")
	// The API server has filled in the same defaults.
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(i), i); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(app.Spec.Schedules, i.Spec.Schedules) {
		t.Errorf("the Application has the schedules %+v; want %+v", app.Spec.Schedules, i.Spec.Schedules)
	}

	before := app.DeepCopy()
	next := metav1.NewTime(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	app.Status.Schedules = []platformv1.ScheduleStatus{{Name: "day", NextTime: &next}}
	if err := patch.Status(t.Context(), env.Client, before, app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, i, "tells the next time", func() error {
		if all := i.Status.Schedules; len(all) != 1 || all[0].Name != "day" || !all[0].NextTime.Equal(&next) {
			return fmt.Errorf("it has %+v", all)
		}
		return nil
	})

	if field := (inference.Kind{}).WriteThrough()["components[server].replicas"]; field != "replicas" {
		t.Fatalf("an Operation that scales writes %q", field)
	}
	if err := testkit.Edit(t.Context(), env.Client, i, func() { i.Spec.Replicas = new(int32(4)) }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "has four pods", func() error {
		if got := app.Spec.Components[0].Replicas; got == nil || *got != 4 {
			return fmt.Errorf("its replicas are %v", got)
		}
		return nil
	})
}
