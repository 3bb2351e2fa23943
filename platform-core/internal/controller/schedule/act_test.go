// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/scheduling"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A schedule whose Operation cannot be made holds up no other one, and its time stays to be settled.
func TestARefusedScheduleHoldsUpNoOther(t *testing.T) {
	kinds := testkit.Scheme(t, platformv1.AddToScheme)
	before := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	at := before.Add(time.Hour)
	former := scheduling.Records{"refused": {Since: before}, "backup": {Since: before}}
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1",
		Annotations: map[string]string{platformv1.SchedulesAnnotation: former.String()}}}
	refusing := "a.refused"
	writes := 0
	api := fake.NewClientBuilder().WithScheme(kinds).WithObjects(app).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
			if obj.GetName() == refusing {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "operations"}, refusing, nil)
			}
			return c.Create(ctx, obj, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, obj, patch, options...)
		},
	}).Build()
	c := &Controller{client: api, live: api, events: event.New(events.NewFakeRecorder(10))}
	carryOut := func(names ...string) error {
		t.Helper()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
			t.Fatal(err)
		}
		plan := scheduling.Plan{Records: scheduling.RecordsOf(app), Passed: map[string]string{}}
		for _, name := range names {
			plan.Runs = append(plan.Runs,
				scheduling.Run{Schedule: &platformv1.Schedule{Name: name}, Time: at, Name: "a." + name})
			plan.Records[name] = scheduling.Record{Since: at, Operation: "a." + name}
		}
		err := c.carryOut(t.Context(), app, plan)
		if getErr := api.Get(t.Context(), client.ObjectKeyFromObject(app), app); getErr != nil {
			t.Fatal(getErr)
		}
		return err
	}
	if err := carryOut("refused", "backup"); err == nil || !strings.Contains(err.Error(), `"refused"`) {
		t.Errorf("it says %v", err)
	}
	made := client.ObjectKey{Namespace: "n", Name: "a.backup"}
	if err := api.Get(t.Context(), made, &platformv1.Operation{}); err != nil {
		t.Errorf("the other one made none: %v", err)
	}
	if is := scheduling.RecordsOf(app); !is["backup"].Since.Equal(at) || !is["refused"].Since.Equal(before) {
		t.Errorf("on record is %+v", is)
	}
	written := writes
	if err := carryOut("refused"); err == nil || writes != written {
		t.Errorf("it says %v, after %d writes of what has not changed", err, writes-written)
	}
	refusing = ""
	if err := carryOut("refused"); err != nil || !scheduling.RecordsOf(app)["refused"].Since.Equal(at) {
		t.Errorf("on record is %+v, %v", scheduling.RecordsOf(app), err)
	}
}
