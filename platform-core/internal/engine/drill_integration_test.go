// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// verifying is a template that ends as its last word says.
const verifying = `name: Verify
steps:
  - name: check
    job: {component: redis, command: [check, %s]}
`

// judgeable makes an instance with a repository and a plugin of this version, whose verification ends as a word says,
// and plays what removes what drills have made.
func judgeable(t *testing.T, version, word string) (*platformv1.Application, *jobs) {
	t.Helper()
	derived(t, version, "1.0.0", func(parts map[string]map[string]string) {
		withoutRestore(t, parts)
		replaced(t, parts, "components", "components.yaml", "        facts:\n",
			`        restore: {folder: /data, command: [sh, -c, "cat >dump.rdb"]}
        verify: {topology: standalone, operation: Verify}
        facts:
`)
		parts["operations"]["Verify.yaml"] = fmt.Sprintf(verifying, word)
	})
	app, played := kept(t, func(s *platformv1.ApplicationSpec) { s.PluginVersion = version })
	t.Cleanup(func() { played.moves = nil })
	collect(t, app.Namespace)
	return app, played
}

// collect plays the garbage collector, for Applications that are being deleted and what is made from them.
func collect(t *testing.T, namespace string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.Tick(50 * time.Millisecond); ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-tick:
				if err := sweep(ctx, namespace); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) &&
					ctx.Err() == nil {
					t.Errorf("cannot play the garbage collector: %v", err)
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// released are the finalizers that the cluster itself takes away.
var released = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))

func sweep(ctx context.Context, namespace string) error {
	in := client.InNamespace(namespace)
	var claims corev1.PersistentVolumeClaimList
	if err := env.Client.List(ctx, &claims, in); err != nil {
		return err
	}
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp != nil {
			if err := env.Client.Patch(ctx, &claims.Items[i], released); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	// Before the Applications: a set that is listed after them may be of a new one.
	var sets platformv1.WorkloadSetList
	if err := env.Client.List(ctx, &sets, in); err != nil {
		return err
	}
	var apps platformv1.ApplicationList
	if err := env.Client.List(ctx, &apps, in); err != nil {
		return err
	}
	found := map[string]bool{}
	for i := range apps.Items {
		found[apps.Items[i].Name] = true
		if apps.Items[i].DeletionTimestamp != nil {
			if err := sweepOne(ctx, &apps.Items[i]); err != nil {
				return err
			}
		}
	}
	// An engine that has not seen yet that the owner is gone makes a set once more.
	for i := range sets.Items {
		if name := sets.Items[i].Labels[platformv1.ApplicationLabel]; !found[name] {
			if _, err := sweepMade(ctx, namespace, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepOne deletes what is made from an Application, and lets go of that once it is gone.
func sweepOne(ctx context.Context, app *platformv1.Application) error {
	if left, err := sweepMade(ctx, app.Namespace, app.Name); err != nil || left > 0 {
		return err
	}
	return client.IgnoreNotFound(env.Client.Patch(ctx, app, released))
}

// sweepMade deletes what is made from an Application, and says how much there was.
func sweepMade(ctx context.Context, namespace, name string) (int, error) {
	of := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{platformv1.ApplicationLabel: name}}
	left := 0
	for _, list := range []client.ObjectList{&platformv1.ComponentList{}, &platformv1.WorkloadSetList{},
		&corev1.PodList{}} {
		if err := env.Client.List(ctx, list, of...); err != nil {
			return 0, err
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return 0, err
		}
		left += len(objects)
		for _, one := range objects {
			obj := one.(client.Object)
			if err := env.Client.Delete(ctx, obj, client.GracePeriodSeconds(0),
				client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
				return 0, err
			}
			// Jobs' pods are held until the Job is looked at; what a set has of its own is for the engine to let go of.
			if pod, is := obj.(*corev1.Pod); is && len(pod.Finalizers) > 0 {
				if err := env.Client.Patch(ctx, pod, released); client.IgnoreNotFound(err) != nil {
					return 0, err
				}
			}
		}
	}
	return left, nil
}

// nothingLeft sees that no drill has left anything: neither Applications, nor pods, nor volumes.
func nothingLeft(t *testing.T, app *platformv1.Application) {
	t.Helper()
	var apps platformv1.ApplicationList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&apps, &claims} {
		if err := env.Client.List(t.Context(), list, client.InNamespace(app.Namespace)); err != nil {
			t.Fatal(err)
		}
	}
	if len(apps.Items) != 1 {
		t.Errorf("there are %d Applications", len(apps.Items))
	}
	for i := range claims.Items {
		if strings.Contains(claims.Items[i].Name, "drill-") {
			t.Errorf("there is the volume %s", claims.Items[i].Name)
		}
	}
	for _, name := range podNames(t, app.Namespace) {
		if strings.HasPrefix(name, "drill-") {
			t.Errorf("there is the pod %s", name)
		}
	}
}

// verifiedAs checks what a Backup and its Application say of a drill.
func verifiedAs(t *testing.T, app *platformv1.Application, backup, operation string,
	outcome platformv1.VerificationOutcome, says string) {
	t.Helper()
	b := backupIs(t, app.Namespace, backup, platformv1.BackupCompleted)
	if v := b.Status.Verified; v == nil || v.Outcome != outcome || v.Operation != operation ||
		!strings.Contains(v.Message, says) {
		t.Errorf("the Backup says %+v, want %s: %s", v, outcome, says)
	}
	want := metav1.ConditionFalse
	if outcome == platformv1.VerificationPassed {
		want = metav1.ConditionTrue
	}
	testkit.WaitFor(t, env.Client, app, "BackupsVerified", func() error {
		c := meta.FindStatusCondition(app.Status.Conditions, platformv1.BackupsVerifiedCondition)
		if c == nil || c.Status != want || !strings.Contains(c.Message, backup) {
			return fmt.Errorf("it says %+v", c)
		}
		if app.Status.LastBackup == nil {
			return errors.New("it names no Backup as its last one")
		}
		last := app.Status.LastVerifiedRestore
		if outcome == platformv1.VerificationPassed && (last == nil || last.Backup != backup || last.Operation != operation) {
			return fmt.Errorf("the last verified restore is %+v", last)
		}
		return nil
	})
	if !meta.IsStatusConditionTrue(app.Status.Conditions, platformv1.ReadyCondition) {
		t.Errorf("the instance says %+v", app.Status.Conditions)
	}
}

// A drill makes a small copy of the instance, has it verified, and removes it; others run meanwhile.
func TestDrill(t *testing.T) {
	app, played := judgeable(t, "3.2.0", "well")
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	none := ends(t, operate(t, app, "early", "VerifyBackup", nil), platformv1.OperationFailed)
	if !strings.Contains(none.Error, "has no Backup that is complete") {
		t.Errorf("it says %q", none.Error)
	}
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	stop, open := gate(t)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbRestore {
			stop()
		}
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30}, platformv1.OperationSucceeded
	}
	op := operate(t, app, "weekly", "VerifyBackup", nil)
	copied := &platformv1.Application{}
	testkit.WaitFor(t, env.Client, op, "makes an instance", func() error {
		if len(op.Status.Steps) == 0 || op.Status.Steps[0].Outputs["made"] == "" {
			return fmt.Errorf("it is %+v", op.Status)
		}
		return env.Client.Get(t.Context(), client.ObjectKey{Namespace: app.Namespace,
			Name: op.Status.Steps[0].Outputs["instance"]}, copied)
	})
	if copied.Labels[platformv1.DrillLabel] != app.Name || copied.OwnerReferences[0].UID != op.UID ||
		copied.Spec.RestoreFrom.Backup != "nightly-backup" {
		t.Errorf("it makes %+v", copied)
	}
	// It keeps nobody waiting but its like.
	ends(t, operate(t, app, "reload", "Apply", nil), platformv1.OperationSucceeded)
	second := operate(t, app, "second", "VerifyBackup", nil, "backup", "nightly-backup")
	testkit.WaitFor(t, env.Client, second, "waits for the first", func() error {
		if ready := meta.FindStatusCondition(second.Status.Conditions, platformv1.ReadyCondition); ready == nil ||
			!strings.Contains(ready.Message, `"weekly"`) {
			return fmt.Errorf("it says %+v", second.Status.Conditions)
		}
		return nil
	})
	open()
	ends(t, op, platformv1.OperationSucceeded)
	verifiedAs(t, app, "nightly-backup", "weekly", platformv1.VerificationPassed, "found the data good")
	ends(t, second, platformv1.OperationSucceeded)
	nothingLeft(t, app)
	refresh(t, op)
	if op.Status.Steps[0].Outputs["outcome"] != "Passed" {
		t.Errorf("it says %v", op.Status.Steps[0].Outputs)
	}
	// Nobody else has an instance taken for one of a drill.
	theirs := application(app.Namespace)
	theirs.Name, theirs.Labels[platformv1.DrillLabel] = "redis-z", app.Name
	if err := env.Client.Create(t.Context(), theirs); !apierrors.IsForbidden(err) {
		t.Errorf("an Application with the label: %v", err)
	}
	// An account like the engine's, so that nothing was denied to that one.
	like, err := env.Operator(t.Context(), app.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := client.New(like.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Delete(t.Context(), app, client.DryRunAll); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "only Applications that a restore drill made") {
		t.Errorf("an engine deletes an instance: %v", err)
	}
}

// What is not good is said, on the Backup and on the instance, and nothing is left; and what ends early has no say, or
// says that nobody knows.
func TestDrillThatFails(t *testing.T) {
	app, played := judgeable(t, "3.2.1", "bad")
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	bad := ends(t, operate(t, app, "bad", "VerifyBackup", nil), platformv1.OperationFailed)
	if !strings.Contains(bad.Error, `Backup "nightly-backup" is not good: Operation Verify says`) {
		t.Errorf("it says %q", bad.Error)
	}
	verifiedAs(t, app, "nightly-backup", "bad", platformv1.VerificationFailed, "key 7 cannot be read")
	nothingLeft(t, app)
	played.moves = func(mover.Plan) (mover.Result, platformv1.OperationPhase) {
		return mover.Result{Reason: mover.ReasonDamaged, Message: "the part 1 is not what it was"}, platformv1.OperationFailed
	}
	ends(t, operate(t, app, "damaged", "VerifyBackup", nil), platformv1.OperationFailed)
	verifiedAs(t, app, "nightly-backup", "damaged", platformv1.VerificationFailed, "the part 1 is not what it was")
	nothingLeft(t, app)
	begun := make(chan struct{}, 10)
	played.moves = func(mover.Plan) (mover.Result, platformv1.OperationPhase) {
		begun <- struct{}{}
		return mover.Result{}, ""
	}
	cancelled := operate(t, app, "cancelled", "VerifyBackup", nil)
	says(t, cancelled, "to begin with")
	within(t, "the data is on its way", begun)
	if err := env.Client.Patch(t.Context(), cancelled,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	ends(t, cancelled, platformv1.OperationCancelled)
	verifiedAs(t, app, "nightly-backup", "damaged", platformv1.VerificationFailed, "the part 1")
	nothingLeft(t, app)
	late := operate(t, app, "late", "VerifyBackup", nil)
	runsOut(t, late, "to begin with")
	ends(t, late, platformv1.OperationFailed)
	verifiedAs(t, app, "nightly-backup", "late", platformv1.VerificationUnfinished, "not done within")
	nothingLeft(t, app)
	// The drill of an instance that is deleted goes with it.
	over := operate(t, app, "over", "VerifyBackup", nil)
	says(t, over, "to begin with")
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	ends(t, over, platformv1.OperationCancelled)
	testkit.Eventually(t, "the end of what the drill made", func(ctx context.Context) error {
		var apps platformv1.ApplicationList
		if err := env.Client.List(ctx, &apps, client.InNamespace(app.Namespace)); err != nil || len(apps.Items) == 0 {
			return err
		}
		return fmt.Errorf("there is %s", apps.Items[0].Name)
	})
}

// within waits for a sign.
func within(t *testing.T, what string, sign <-chan struct{}) {
	t.Helper()
	select {
	case <-sign:
	case <-time.After(testkit.Patience):
		t.Fatalf("%s: not within %s", what, testkit.Patience)
	}
}

// Whatever crashes, one instance is made, the Backup says what came of it, and nothing is left.
func TestDrillSurvivesTheEngine(t *testing.T) {
	app, played := judgeable(t, "3.2.2", "well")
	_, _, stop := run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	stop()
	op := operate(t, app, "weekly", "VerifyBackup",
		func(s *platformv1.OperationSpec) { s.Timeout = &metav1.Duration{Duration: 30 * time.Minute} })
	over := func() bool {
		refresh(t, op)
		return op.Status.CompletionTime != nil
	}
	for n := 1; n < 120 && !over(); n++ {
		_, died, stop := run(t, n%7)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for dead := false; !dead && !over(); {
			select {
			case <-died:
				dead = true
			case <-ctx.Done():
				dead = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		cancel()
		stop()
	}
	run(t, -1)
	ends(t, op, platformv1.OperationSucceeded)
	verifiedAs(t, app, "nightly-backup", "weekly", platformv1.VerificationPassed, "found the data good")
	nothingLeft(t, app)
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 1 {
		t.Errorf("there were %d movers", len(movers))
	}
}
