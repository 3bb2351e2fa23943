// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// stuck are the namespaces in which no pod starts on restored data.
var stuck sync.Map

// stubborn says whether a pod does not start since it is on data that it cannot read.
func stubborn(pod *corev1.Pod) bool {
	_, is := stuck.Load(pod.Namespace)
	return is && claimOf(pod) != platformv1.ClaimNameFor("data", pod.Name)
}

// claimOf is the claim of the only volume of a pod.
func claimOf(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// restorableHere makes an instance of a plugin that can restore, with a Backup of it.
func restorableHere(t *testing.T) (*platformv1.Application, *jobs, *platformv1.Backup) {
	t.Helper()
	first, played := wayBack(t)
	_, _, stop := run(t, -1)
	app := application(first.Namespace)
	app.Name, app.Spec.PluginVersion = "redis-r", restores
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	backup := backupIs(t, app.Namespace, "nightly-backup", platformv1.BackupCompleted)
	stop()
	return app, played, backup
}

// claims are the volumes of an instance that nobody deletes.
func claims(t *testing.T, app *platformv1.Application) []string {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

// stillServes checks that an instance is as before, and that nothing of what was prepared is left.
func stillServes(t *testing.T, app *platformv1.Application, before *corev1.Pod) {
	t.Helper()
	testkit.WaitForReady(t, env.Client, app)
	if pod := podOf(t, app); pod.UID != before.UID || claimOf(pod) != claimOf(before) {
		t.Errorf("its pod is another one, with %s", claimOf(pod))
	}
	if left := claims(t, app); len(left) != 1 || left[0] != claimOf(before) {
		t.Errorf("there are the volumes %v", left)
	}
}

// restoredInPlace checks that an instance has the data of a Backup, and the volume of before is gone.
func restoredInPlace(t *testing.T, app *platformv1.Application, status platformv1.OperationStatus, before *corev1.Pod) {
	t.Helper()
	testkit.WaitForReady(t, env.Client, app)
	pod, generation := podOf(t, app), status.Steps[0].Outputs["data"]
	if pod.UID == before.UID || claimOf(pod) != claimOf(before)+"-"+generation || generation == "" ||
		pod.Labels[platformv1.RoleLabel] != "primary" {
		t.Errorf("its pod has %s and the labels %v", claimOf(pod), pod.Labels)
	}
	if left := claims(t, app); len(left) != 1 || left[0] != claimOf(pod) {
		t.Errorf("there are the volumes %v", left)
	}
}

// An instance takes the data of a Backup in the place of its own, of which there is a copy then.
func TestRestoreInPlace(t *testing.T) {
	app, played, backup := restorableHere(t)
	run(t, -1)
	before := podOf(t, app)
	dry := ends(t, operate(t, app, "dry", "Restore", func(s *platformv1.OperationSpec) { s.DryRun = true }, "backup",
		backup.Name), platformv1.OperationSucceeded)
	if !strings.Contains(strings.Join(dry.Plan, "\n"), "open: leads clients to the restored data") {
		t.Errorf("it would do %v", dry.Plan)
	}
	status := ends(t, operate(t, app, "back", "Restore", nil, "backup", backup.Name), platformv1.OperationSucceeded)
	restoredInPlace(t, app, status, before)
	copied := backupIs(t, app.Namespace, status.Steps[1].Outputs["backup"], platformv1.BackupCompleted)
	if copied.Labels[platformv1.ScheduleLabel] != "safety-copy" || copied.Spec.Retention == nil ||
		copied.Spec.Retention.MaxAge.Duration != 168*time.Hour {
		t.Errorf("the safety copy is %+v", copied)
	}
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 1 ||
		movers[0].Labels[platformv1.BackupLabel] != string(backup.UID) {
		t.Errorf("there were %d movers", len(movers))
	}
	// What is foretold is of the volumes that it has.
	dry = ends(t, operate(t, app, "upgrade", "UpgradePaaS", func(s *platformv1.OperationSpec) { s.DryRun = true },
		"version", "8.0"), platformv1.OperationSucceeded)
	if plan := strings.Join(dry.Plan, "\n"); !strings.Contains(plan,
		"upgrade: Restart Pod redis-r-redis-main-0: its image changed") || strings.Contains(plan, "PersistentVolumeClaim") {
		t.Errorf("an upgrade would do %v", dry.Plan)
	}
	// And once more, from what it had before, without another copy: its volume stays then.
	again := podOf(t, app)
	status = ends(t, operate(t, app, "forth", "Restore", nil, "backup", copied.Name, "safetyCopy", "Skip"),
		platformv1.OperationSucceeded)
	testkit.WaitForReady(t, env.Client, app)
	if pod := podOf(t, app); pod.UID == again.UID ||
		!strings.HasSuffix(claimOf(pod), "-"+status.Steps[0].Outputs["data"]) || len(claims(t, app)) != 2 {
		t.Errorf("its pod has %s, and there are %v", claimOf(pod), claims(t, app))
	}
	if status.Steps[1].Phase != platformv1.OperationSkipped {
		t.Errorf("the copy: %+v", status.Steps[1])
	}
}

// What cannot be restored is refused, with what to do, and nothing is touched.
func TestRestoreInPlaceIsRefused(t *testing.T) {
	app, played, _ := restorableHere(t)
	run(t, -1)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 3 << 30}, platformv1.OperationSucceeded
	}
	ends(t, operate(t, app, "large", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	before := podOf(t, app)
	for name, tc := range map[string]struct{ backup, error string }{
		"nothing": {"nowhere", `there is no Backup "nowhere"`},
		"room":    {"large-backup", "ask for more storage"},
	} {
		if status := ends(t, operate(t, app, name, "Restore", nil, "backup", tc.backup),
			platformv1.OperationFailed); !strings.Contains(status.Error, tc.error) || status.Steps[0].Attempts != 1 {
			t.Errorf("%s: it says %q", name, status.Error)
		}
	}
	first := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "redis-a"}}
	if status := ends(t, operate(t, first, "method", "Restore", nil, "backup", "large-backup"),
		platformv1.OperationFailed); !strings.Contains(status.Error, `restores nothing of method "rdb"`) {
		t.Errorf("it says %q", status.Error)
	}
	stillServes(t, app, before)
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 0 {
		t.Errorf("there were %d movers", len(movers))
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = new(false) })
	if status := ends(t, operate(t, app, "stopped", "Restore", nil, "backup", "large-backup"),
		platformv1.OperationFailed); !strings.Contains(status.Error, "set spec.running to true first") {
		t.Errorf("it says %q", status.Error)
	}
}

// An instance that keeps its log in an archive is refused: by the credential that its method reads such a log with.
func TestRestoreInPlaceOfAnArchiveIsRefused(t *testing.T) {
	app, played, backup := restorableHere(t)
	run(t, -1)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "log-keys"},
		StringData: map[string]string{"secret": "x"}})
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Credentials = []platformv1.Credential{
			{Name: "keys", PasswordFrom: platformv1.SecretKeyReference{Name: "log-keys", Key: "secret"}}}
	})
	testkit.WaitForReady(t, env.Client, app)
	before := podOf(t, app)
	status := ends(t, operate(t, app, "back", "Restore", nil, "backup", backup.Name), platformv1.OperationFailed)
	if !strings.Contains(status.Error, `keeps its log in an archive (credential "keys")`) ||
		!strings.Contains(status.Error, "take the archive out") {
		t.Errorf("it says %q", status.Error)
	}
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 0 {
		t.Errorf("there were %d movers", len(movers))
	}
	stillServes(t, app, before)
}

// Data that is damaged leaves the instance as it was; a mover that is lost has a successor.
func TestRestoreInPlaceThatFails(t *testing.T) {
	app, played, backup := restorableHere(t)
	run(t, -1)
	before := podOf(t, app)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		return mover.Result{Reason: mover.ReasonDamaged, Message: "the part 1 is not what it was"}, platformv1.OperationFailed
	}
	status := ends(t, operate(t, app, "damaged", "Restore", nil, "backup", backup.Name), platformv1.OperationFailed)
	if !strings.Contains(status.Error, "the part 1 is not what it was") || status.Steps[0].Attempts != 1 {
		t.Errorf("it says %q after %d attempts", status.Error, status.Steps[0].Attempts)
	}
	stillServes(t, app, before)
	attempts := 0
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbRestore {
			if attempts++; attempts == 1 {
				return mover.Result{}, platformv1.OperationFailed
			}
		}
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30}, platformv1.OperationSucceeded
	}
	if status = ends(t, operate(t, app, "lost", "Restore", nil, "backup", backup.Name),
		platformv1.OperationSucceeded); status.Steps[0].Attempts != 2 {
		t.Errorf("there were %d attempts", status.Steps[0].Attempts)
	}
	restoredInPlace(t, app, status, before)
}

// Until the swap it can be cancelled, and what was prepared is gone.
func TestRestoreInPlaceIsCancelled(t *testing.T) {
	app, played, backup := restorableHere(t)
	run(t, -1)
	before := podOf(t, app)
	played.moves = func(mover.Plan) (mover.Result, platformv1.OperationPhase) { return mover.Result{}, "" }
	op := operate(t, app, "long", "Restore", nil, "backup", backup.Name)
	played.cancelled(t, op, mover.VerbRestore)
	stillServes(t, app, before)
}

// Data on which no pod starts is taken back before a client was led to it.
func TestRestoreInPlaceThatDoesNotStart(t *testing.T) {
	app, _, backup := restorableHere(t)
	run(t, -1)
	before := podOf(t, app)
	stuck.Store(app.Namespace, true)
	op := operate(t, app, "unread", "Restore", nil, "backup", backup.Name)
	runsOut(t, op, "to work with the restored data")
	status := ends(t, op, platformv1.OperationFailed)
	takenBack(t, app, status, before)
}

// takenBack checks that an instance is on its volume of before again, and that no client was led to another.
func takenBack(t *testing.T, app *platformv1.Application, status platformv1.OperationStatus, before *corev1.Pod) {
	t.Helper()
	if !strings.Contains(status.Error, "restored data") {
		t.Errorf("it says %q", status.Error)
	}
	testkit.WaitForReady(t, env.Client, app)
	if pod := podOf(t, app); claimOf(pod) != claimOf(before) || pod.Labels[platformv1.RoleLabel] != "primary" {
		t.Errorf("its pod has %s and the labels %v", claimOf(pod), pod.Labels)
	}
	if left := claims(t, app); len(left) != 1 || left[0] != claimOf(before) {
		t.Errorf("there are the volumes %v", left)
	}
	if meta.IsStatusConditionTrue(status.Conditions, platformv1.PointOfNoReturnCondition) {
		t.Error("it says that there was no way back")
	}
}

// meanwhile does something when the pod of an instance is made on other volumes than before, and has it start then.
func meanwhile(t *testing.T, app *platformv1.Application, before *corev1.Pod, do func(claim string)) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name}}
	testkit.Eventually(t, "a pod on other volumes", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.UID == before.UID || claimOf(pod) == claimOf(before) {
			return fmt.Errorf("it has %s", claimOf(pod))
		}
		return nil
	})
	do(claimOf(pod))
	stuck.Delete(app.Namespace)
	if err := start(t.Context(), pod, "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
}

// Volumes that are not those that were filled are never led to.
func TestRestoreInPlaceOntoOtherVolumes(t *testing.T) {
	app, _, backup := restorableHere(t)
	run(t, -1)
	before := podOf(t, app)
	stuck.Store(app.Namespace, true)
	op := operate(t, app, "emptied", "Restore", nil, "backup", backup.Name)
	meanwhile(t, app, before, func(name string) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: name}}
		unmarked := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+platformv1.RestoredAnnotation+`":null}}}`))
		if err := env.Client.Patch(t.Context(), claim, unmarked); err != nil {
			t.Fatal(err)
		}
	})
	runsOut(t, op, "does not have the restored data")
	takenBack(t, app, ends(t, op, platformv1.OperationFailed), before)
}

// Without its safety copy nothing of before is deleted.
func TestRestoreInPlaceThatLosesItsCopy(t *testing.T) {
	app, _, backup := restorableHere(t)
	run(t, -1)
	before := podOf(t, app)
	stuck.Store(app.Namespace, true)
	op := operate(t, app, "uncopied", "Restore", nil, "backup", backup.Name)
	meanwhile(t, app, before, func(string) {
		testkit.WaitFor(t, env.Client, op, "the safety copy", func() error {
			if op.Status.Steps[1].Outputs["backup"] == "" {
				return fmt.Errorf("there is none")
			}
			return nil
		})
		copied := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace,
			Name: op.Status.Steps[1].Outputs["backup"]}}
		if err := env.Client.Delete(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
	})
	status := ends(t, op, platformv1.OperationFailed)
	keepsThoseOfBefore(t, app, before, status, "the safety copy")
}

// A safety copy that is damaged in the store by now is found out before anything of before is deleted, though its
// Backup says nothing of that.
func TestRestoreInPlaceWhoseCopyIsDamaged(t *testing.T) {
	app, played, backup := restorableHere(t)
	run(t, -1)
	before := podOf(t, app)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbInspect {
			return mover.Result{Reason: mover.ReasonDamaged, Message: "part 1 is gone"}, platformv1.OperationFailed
		}
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30}, platformv1.OperationSucceeded
	}
	status := ends(t, operate(t, app, "wiped", "Restore", nil, "backup", backup.Name), platformv1.OperationFailed)
	keepsThoseOfBefore(t, app, before, status, "part 1 is gone")
}

// keepsThoseOfBefore has a restore say why, and that the volumes of before are kept: its pod is on another one, and
// both are there.
func keepsThoseOfBefore(t *testing.T, app *platformv1.Application, before *corev1.Pod,
	status platformv1.OperationStatus, why string) {
	t.Helper()
	if !strings.Contains(status.Error, why) || !strings.Contains(status.Error, "the previous volumes are kept") {
		t.Errorf("it says %q", status.Error)
	}
	testkit.WaitForReady(t, env.Client, app)
	if pod, left := podOf(t, app), claims(t, app); claimOf(pod) == claimOf(before) || len(left) != 2 {
		t.Errorf("its pod has %s, and there are %v", claimOf(pod), left)
	}
}

// Whatever crashes, one mover brings the data, and one volume is left.
func TestRestoreInPlaceSurvivesTheEngine(t *testing.T) {
	app, played, backup := restorableHere(t)
	before := podOf(t, app)
	op := operate(t, app, "once", "Restore", nil, "backup", backup.Name)
	crashing{times: 120, writes: 7}.until(t, op)
	run(t, -1)
	if op.Status.Phase != platformv1.OperationSucceeded {
		t.Fatalf("it is %+v", op.Status)
	}
	restoredInPlace(t, app, op.Status, before)
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 1 {
		t.Errorf("there were %d movers", len(movers))
	}
}
