// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// dbClaims are the volumes of component db, by name.
func dbClaims(t *testing.T, app *platformv1.Application) []corev1.PersistentVolumeClaim {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	err := env.Client.List(t.Context(), &list, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name, platformv1.ComponentLabel: "db"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// provision has a claim be bound to a volume of a size, as its driver does.
func provision(t *testing.T, claim *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	bound := claim.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	bound.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	if err := env.Client.Status().Patch(t.Context(), bound, client.MergeFrom(claim)); err != nil {
		t.Fatal(err)
	}
}

// wantClaims checks what size is asked for of each claim.
func wantClaims(t *testing.T, app *platformv1.Application, size string) {
	t.Helper()
	want := resource.MustParse(size)
	for _, claim := range dbClaims(t, app) {
		if got := claim.Spec.Resources.Requests[corev1.ResourceStorage]; !got.Equal(want) {
			t.Errorf("claim %s asks for %s, want %s", claim.Name, got.String(), size)
		}
	}
}

// volumesAre waits until the volumes of a set, named by component and set, are in these phases.
func volumesAre(t *testing.T, app *platformv1.Application, name string, want ...platformv1.VolumePhase) {
	t.Helper()
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-" + name}}
	testkit.WaitFor(t, env.Client, set, fmt.Sprint("volumes are ", want), func() error {
		var got []platformv1.VolumePhase
		for _, volume := range set.Status.Volumes {
			got = append(got, volume.Phase)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// growing makes the class of that name, whose volumes can grow.
func growing(t *testing.T) {
	t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "growing"}, Provisioner: "example.com/none",
		AllowVolumeExpansion: new(true)}
	create(t, class)
	t.Cleanup(func() {
		if err := env.Client.Delete(context.WithoutCancel(t.Context()), class); err != nil {
			t.Error(err)
		}
	})
}

// onGrowing makes an instance whose component db has volumes of that class, which are bound with 1Gi.
func onGrowing(t *testing.T, namespace string) (*platformv1.Application, []corev1.PersistentVolumeClaim) {
	t.Helper()
	app := shop(namespace, "shop-a", "tiers")
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "db", Storage: &platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: new("growing")}}}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	claims := dbClaims(t, app)
	if len(claims) != 4 {
		t.Fatalf("there are %d volumes", len(claims))
	}
	for i := range claims {
		provision(t, &claims[i], "1Gi")
	}
	return app, claims
}

// askedFor waits until each of these claims asks for a size.
func askedFor(t *testing.T, claims []corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	for i := range claims {
		testkit.WaitFor(t, env.Client, &claims[i], "is asked for "+size, func() error {
			if got := claims[i].Spec.Resources.Requests[corev1.ResourceStorage]; !got.Equal(resource.MustParse(size)) {
				return fmt.Errorf("it is asked for %s", got.String())
			}
			return nil
		})
	}
}

// VerticalScaleVolume has the volumes of a component grow under their pods, and is done when the last of them has the
// size. Smaller ones are refused, and so is what a storage class cannot do; then nothing is touched.
func TestVerticalScaleVolume(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	growing(t)
	app, claims := onGrowing(t, namespace)
	before := uids(t, namespace)

	op := operate(t, app, "grow", "VerticalScaleVolume", nil, "component", "db", "size", "2Gi")
	says := fmt.Sprintf("volume of claim %s grows from 1Gi to 2Gi", claims[0].Name)
	testkit.WaitFor(t, env.Client, op, says, func() error {
		if op.Status.Phase != platformv1.OperationRunning || !strings.Contains(op.Status.Steps[0].Message, says) {
			return fmt.Errorf("it is %s: %s, %+v", op.Status.Phase, op.Status.Error, op.Status.Steps)
		}
		return nil
	})
	askedFor(t, claims, "2Gi")
	last := len(claims) - 1
	for i := range last {
		provision(t, &claims[i], "2Gi")
	}
	volumesAre(t, app, "db-0", platformv1.VolumeBound, platformv1.VolumeBound)
	volumesAre(t, app, "db-1", platformv1.VolumeBound, platformv1.VolumeExpanding)
	if refresh(t, op); op.Status.Phase != platformv1.OperationRunning {
		t.Errorf("it is %s while a volume grows", op.Status.Phase)
	}
	provision(t, &claims[last], "2Gi")
	status := ends(t, op, platformv1.OperationSucceeded)
	wantClaims(t, app, "2Gi")
	if want := "spec.components[db].storage.size: 1Gi → 2Gi"; status.Steps[0].Outputs["changed"] != want {
		t.Errorf("it says that it changed %q, want %q", status.Steps[0].Outputs["changed"], want)
	}
	for name, uid := range uids(t, namespace) {
		if before[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}

	refresh(t, app)
	generation := app.Generation
	for name, tc := range map[string]struct{ size, says string }{
		"shrink":     {"1Gi", "has 2Gi and cannot shrink to 1Gi: set the size to at least 2Gi"},
		"nothing":    {"0", "storage of size 0: it must be greater than 0"},
		"no-size":    {"much", `a quantity such as 10Gi`},
		"impossible": {"3Gx", "3Gx"},
	} {
		failed := ends(t, operate(t, app, name, "VerticalScaleVolume", nil, "component", "db", "size", tc.size),
			platformv1.OperationFailed)
		if !strings.Contains(failed.Error, tc.says) {
			t.Errorf("%s: it says %q, want %q", name, failed.Error, tc.says)
		}
	}
	wantClaims(t, app, "2Gi")
	if refresh(t, app); app.Generation != generation {
		t.Errorf("the Application was changed: generation %d, before %d", app.Generation, generation)
	}
}

// A size that a storage cannot give fails its Operation and is said by the Application; a smaller one is asked for
// then, which the volumes have not got yet either.
func TestInfeasibleSizeIsTakenBack(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	growing(t)
	app, claims := onGrowing(t, namespace)
	scale := func(name, size string) *platformv1.Operation {
		return operate(t, app, name, "VerticalScaleVolume", nil, "component", "db", "size", size)
	}
	op := scale("too-much", "10Ti")
	askedFor(t, claims, "10Ti")
	if takesBack, err := env.Since(testkit.TakesSizesBack); err != nil {
		t.Fatal(err)
	} else if !takesBack {
		change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Storage.Size = resource.MustParse("2Gi") })
		testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if !strings.Contains(ready.Message, "as Kubernetes does from 1.32 on") {
			t.Errorf("%s: %s", ready.Reason, ready.Message)
		}
		return
	}
	refused := claims[1].DeepCopy()
	refused.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Ti")}
	refused.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
	if err := env.Client.Status().Patch(t.Context(), refused, client.MergeFrom(&claims[1])); err != nil {
		t.Fatal(err)
	}
	says := fmt.Sprintf("claim %s does not grow from 1Gi to 10Ti (ControllerResizeInfeasible): make room for it, or set "+
		"the size back to one above 1Gi", claims[1].Name)
	if status := ends(t, op, platformv1.OperationFailed); !strings.Contains(status.Error, says) {
		t.Errorf("it says %q, want %q", status.Error, says)
	}
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	ready := conditions.Get(app, platformv1.ReadyCondition)
	if ready.Reason != platformv1.ReasonVolumeExpansionUnsupported || !strings.Contains(ready.Message, says) {
		t.Errorf("%s: %s", ready.Reason, ready.Message)
	}

	status := ends(t, scale("as-before", "1Gi"), platformv1.OperationFailed)
	if !strings.Contains(status.Error, "set the size to one above 1Gi") {
		t.Errorf("it says %q", status.Error)
	}
	op = scale("less", "2Gi")
	askedFor(t, claims, "2Gi")
	for i := range claims {
		provision(t, &claims[i], "2Gi")
	}
	ends(t, op, platformv1.OperationSucceeded)
	testkit.WaitForReady(t, env.Client, app)
}

// A size that a storage fails to give is said in the driver's words, and an edit takes it back; so does an Operation,
// for which the record of the edit makes room.
func TestAFailedExpansionIsTakenBackByAnEdit(t *testing.T) {
	if takesBack, err := env.Since(testkit.TakesSizesBack); err != nil {
		t.Fatal(err)
	} else if !takesBack {
		return // TestInfeasibleSizeIsTakenBack shows what an older server says.
	}
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	growing(t)
	app, claims := onGrowing(t, namespace)
	asks := func(size string) {
		change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Storage.Size = resource.MustParse(size) })
		askedFor(t, claims, size)
	}
	const unsupported, says = platformv1.ReasonVolumeExpansionUnsupported, "pool ssd has 800Gi left"
	asks("9999Ti")
	failing := claims[0].DeepCopy()
	failing.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue,
		Message: "rpc error: code = ResourceExhausted desc = " + says}}
	if err := env.Client.Status().Patch(t.Context(), failing, client.MergeFrom(&claims[0])); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "says what the driver says", func() error {
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if ready.Reason != unsupported || !strings.Contains(ready.Message, says) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	asks("3Gi")
	refresh(t, app)
	op := operate(t, app, "less", "VerticalScaleVolume", nil, "component", "db", "size", "2Gi")
	askedFor(t, claims, "2Gi")
	for i := range claims {
		mended := claims[i].DeepCopy()
		mended.Status.Conditions = nil
		if err := env.Client.Status().Patch(t.Context(), mended, client.MergeFrom(&claims[i])); err != nil {
			t.Fatal(err)
		}
		provision(t, mended, "2Gi")
	}
	ends(t, op, platformv1.OperationSucceeded)
	testkit.WaitForReady(t, env.Client, app)
	wantClaims(t, app, "2Gi")
}

// Memory and storage in milli units are refused with what to write, in a spec that is there already and by the
// Operations that change it.
func TestAmountsInMilliUnitsStall(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	growing(t)
	app, _ := onGrowing(t, namespace)
	const storage = `component "db" has storage of size 500m: that is less than 1Ki, since m means thousandths, ` +
		"here of a byte; write 500Mi for mebibytes"
	op := operate(t, app, "small", "VerticalScaleVolume", nil, "component", "db", "size", "500m")
	failed := ends(t, op, platformv1.OperationFailed)
	if !strings.Contains(failed.Error, storage) {
		t.Errorf("it says %q, want %q", failed.Error, storage)
	}
	refresh(t, app)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("400m")}
	})
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	const memory = `component "db" has a limit of 400m of memory: that is less than 1Ki, since m means thousandths, ` +
		"here of a byte; write 400Mi for mebibytes"
	ready := conditions.Get(app, platformv1.ReadyCondition)
	if ready.Reason != platformv1.ReasonInvalidSpec || ready.Message != memory {
		t.Errorf("%s: %s", ready.Reason, ready.Message)
	}
}
