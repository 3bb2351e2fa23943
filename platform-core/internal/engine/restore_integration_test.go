// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"slices"
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

// restores is the version of the plugin redis whose backups have a way back.
const restores = "3.1.0"

// wayBack makes an instance with a repository, and installs a plugin that can restore what is backed up of it.
func wayBack(t *testing.T) (*platformv1.Application, *jobs) {
	t.Helper()
	derived(t, dumpsOnly, "1.0.0", func(parts map[string]map[string]string) { withoutRestore(t, parts) })
	derived(t, restores, "1.0.0", func(parts map[string]map[string]string) {
		withoutRestore(t, parts)
		replaced(t, parts, "components", "components.yaml", "        facts:\n", `        restore:
          folder: /data
          command: [sh, -c, "cat >dump.rdb"]
          env:
            - {name: APPENDONLY, value: "${'appendonly' in params ? params['appendonly'] : 'no'} ${app.version}"}
          target:
            parameters:
              log: {schema: string, description: where the log is}
            credentials: [{name: keys}]
        facts:
`)
		replaced(t, parts, "components", "components.yaml", "\ncredentials:\n",
			"\ncredentials:\n  - {name: keys, username: keys, supplied: true}\n")
		replaced(t, parts, "components", "components.yaml", "\n    credentials: [default, sentinel]\n",
			"\n    credentials: [default, sentinel, keys]\n")
	})
	app, played := kept(t, func(s *platformv1.ApplicationSpec) { s.PluginVersion = dumpsOnly })
	t.Cleanup(func() { played.moves = nil })
	return app, played
}

// dumpsOnly is a version of the plugin redis whose backups have no way back.
const dumpsOnly = "3.1.1"

// withoutRestore takes out of the plugin redis how a snapshot of the server is restored and verified.
func withoutRestore(t *testing.T, parts map[string]map[string]string) {
	t.Helper()
	cut(t, parts, "        restore:\n", "        default: true\n")
}

// cut takes out of the components of a plugin what is from one text on until the next that is another.
func cut(t *testing.T, parts map[string]map[string]string, from, to string) {
	t.Helper()
	before, rest, found := strings.Cut(parts["components"]["components.yaml"], from)
	_, after, ends := strings.Cut(rest, to)
	if !found || !ends {
		t.Fatalf("the plugin has no %q before %q", from, to)
	}
	parts["components"]["components.yaml"] = before + to + after
}

// begins makes an instance that begins with a Backup.
func begins(t *testing.T, namespace, name, backup string,
	changes ...func(*platformv1.ApplicationSpec)) *platformv1.Application {
	t.Helper()
	app := application(namespace)
	app.Name, app.Spec.PluginVersion, app.Spec.RestoreFrom = name, restores, &platformv1.RestoreFrom{Backup: backup}
	for _, change := range changes {
		change(&app.Spec)
	}
	create(t, app)
	return app
}

// held waits until an instance says why it does not begin, and sees that it has no pod.
func held(t *testing.T, app *platformv1.Application, reason, says string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, reason, func() error {
		ready := meta.FindStatusCondition(app.Status.Conditions, platformv1.ReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason ||
			!strings.Contains(ready.Message, says) {
			return fmt.Errorf("it says %+v", app.Status.Conditions)
		}
		return nil
	})
	if pods := podNames(t, app.Namespace); slices.ContainsFunc(pods,
		func(name string) bool { return strings.HasPrefix(name, app.Name+"-") }) {
		t.Errorf("%s has pods: %v", app.Name, pods)
	}
}

// begun checks an instance that is Ready with the data of a Backup.
func begun(t *testing.T, app *platformv1.Application, backup *platformv1.Backup) {
	t.Helper()
	testkit.WaitForReady(t, env.Client, app)
	from := app.Status.RestoredFrom
	if from == nil || from.Backup != backup.Name || from.UID != backup.UID || from.Digest != backup.Status.Digest ||
		from.Size != backup.Status.RawSize {
		t.Errorf("it says that it began with %+v", from)
	}
	if !meta.IsStatusConditionTrue(app.Status.Conditions, platformv1.RestoredCondition) {
		t.Errorf("it says %+v", app.Status.Conditions)
	}
}

// An instance begins with the data of a Backup, which one mover puts on the volume of the first pod before there is any
// pod.
func TestRestoreIntoAnInstance(t *testing.T) {
	app, played := wayBack(t)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	early := begins(t, app.Namespace, "redis-c", "later-backup")
	held(t, early, platformv1.ReasonBackupNotFound, `there is no Backup "later-backup"`)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	backup := backupIs(t, app.Namespace, "nightly-backup", platformv1.BackupCompleted)
	stop, open := gate(t)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbRestore {
			stop()
		}
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30}, platformv1.OperationSucceeded
	}
	b := begins(t, app.Namespace, "redis-b", backup.Name, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{
			{Name: "redis", Parameters: platformv1.Parameters{"appendonly": "yes"}}}
	})
	held(t, b, platformv1.ReasonRestoring, `the data of Backup "nightly-backup", 30 bytes`)
	if c := meta.FindStatusCondition(b.Status.Conditions, platformv1.RestoredCondition); c == nil ||
		c.Status != metav1.ConditionFalse || c.Reason != platformv1.ReasonRestoring {
		t.Errorf("it says %+v", b.Status.Conditions)
	}
	open()
	begun(t, b, backup)
	jobs := played.verbs(t, mover.VerbRestore)
	if len(jobs) != 1 {
		t.Fatalf("there were %d movers", len(jobs))
	}
	pod, container := jobs[0].Spec.Template.Spec, jobs[0].Spec.Template.Spec.Containers[0]
	if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "data-redis-b-redis-main-0"
	}) || !slices.ContainsFunc(container.Env,
		func(e corev1.EnvVar) bool { return e.Name == "APPENDONLY" && e.Value == "yes 7.0" }) {
		t.Errorf("the mover is %+v", pod)
	}
	text := jobs[0].Spec.Template.Annotations[platformv1.MoverPlanAnnotation]
	if !strings.Contains(text, fmt.Sprintf(`"volume":{"folder":"/data","id":%q}`, backup.UID)) ||
		!strings.Contains(text, `"digest":"sha256:1"`) {
		t.Errorf("its plan is %s", text)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: app.Namespace, Name: "data-redis-b-redis-main-0"},
		claim); err != nil || claim.Annotations[platformv1.RestoredAnnotation] != string(backup.UID) {
		t.Errorf("the claim has %v: %v", claim.Annotations, err)
	}
	// What waited for a Backup goes on by itself.
	ends(t, operate(t, app, "later", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	begun(t, early, backupIs(t, app.Namespace, "later-backup", platformv1.BackupCompleted))
	// Once it has its data, nothing of the Backup is needed any more, and no other one can be named.
	if err := env.Client.Delete(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, backup)
	other := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"restoreFrom":{"backup":"later-backup"}}}`))
	if err := env.Client.Patch(t.Context(), b, other); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "immutable") {
		t.Errorf("another Backup: %v", err)
	}
	refresh(t, b)
	change(t, b, func(s *platformv1.ApplicationSpec) { s.DeletionPolicy = platformv1.DeletionPolicyDelete })
	testkit.WaitForReady(t, env.Client, b)
	if again := played.verbs(t, mover.VerbRestore); len(again) != 2 {
		t.Errorf("there were %d movers for two instances", len(again))
	}
}

// What an instance cannot begin with is said at once, and nothing is made.
func TestRestoreIsRefused(t *testing.T) {
	app, played := wayBack(t)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 3 << 30}, platformv1.OperationSucceeded
	}
	ends(t, operate(t, app, "large", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbBackup {
			return mover.Result{Reason: mover.ReasonRefused, Message: "no"}, platformv1.OperationFailed
		}
		return mover.Result{}, platformv1.OperationSucceeded
	}
	ends(t, operate(t, app, "none", "Backup", nil, "repository", "store"), platformv1.OperationFailed)
	for name, tc := range map[string]struct {
		backup, says string
		change       func(*platformv1.ApplicationSpec)
	}{
		"major": {"large-backup", "a restore keeps the major version",
			func(s *platformv1.ApplicationSpec) { s.Version = "8.0" }},
		"method": {"large-backup", `restores nothing of method "rdb"`,
			func(s *platformv1.ApplicationSpec) { s.PluginVersion = dumpsOnly }},
		"size": {"large-backup", `its data has 3Gi, and the volumes of component "redis" have 1Gi`,
			func(*platformv1.ApplicationSpec) {}},
		"failed": {"none-backup", "there is nothing to restore", func(*platformv1.ApplicationSpec) {}},
	} {
		held(t, begins(t, app.Namespace, name, tc.backup, tc.change), platformv1.ReasonRestoreRefused, tc.says)
	}
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 0 {
		t.Errorf("there were movers: %v", movers)
	}
}

// towards has an instance begin at a point in time.
func towards(at time.Time) func(*platformv1.ApplicationSpec) {
	return func(s *platformv1.ApplicationSpec) {
		s.RestoreFrom.Target = &platformv1.RestoreTarget{Time: at.UTC().Format(time.RFC3339),
			Parameters: map[string]platformv1.ParameterValue{"log": "there"},
			Credentials: []platformv1.Credential{
				{Name: "keys", PasswordFrom: platformv1.SecretKeyReference{Name: "log-keys", Key: "secret"}}}}
	}
}

// A point in time is refused at once where that is known, waited for while the logs do not lead there, and never passed
// over.
func TestRestoreToAPointInTime(t *testing.T) {
	app, played := wayBack(t)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	backup := backupIs(t, app.Namespace, "nightly-backup", platformv1.BackupCompleted)
	later := backup.Status.CompletionTime.Add(time.Minute)
	held(t, begins(t, app.Namespace, "early", backup.Name, towards(later.Add(-time.Hour))),
		platformv1.ReasonRestoreRefused, "and the Backup was complete at")
	held(t, begins(t, app.Namespace, "elsewhere", backup.Name, towards(later),
		func(s *platformv1.ApplicationSpec) { s.RestoreFrom.Target.Parameters = nil }),
		platformv1.ReasonRestoreRefused, `parameter "log" is missing: where the log is`)
	held(t, begins(t, app.Namespace, "keyless", backup.Name, towards(later),
		func(s *platformv1.ApplicationSpec) { s.RestoreFrom.Target.Credentials[0].PasswordFrom.Name = "lost" }),
		platformv1.ReasonRestoreFailed, `names Secret "lost" for the credential "keys", which is not there`)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "from-file"},
		StringData: map[string]string{"secret": "x\n"}})
	held(t, begins(t, app.Namespace, "newline", backup.Name, towards(later), func(s *platformv1.ApplicationSpec) {
		s.RestoreFrom.Target.Credentials[0].PasswordFrom.Name = "from-file"
	}), platformv1.ReasonRestoreFailed, `the value under the key "secret" of Secret "from-file" ends with a newline`)
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 0 {
		t.Errorf("there were movers: %v", movers)
	}
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "log-keys"},
		StringData: map[string]string{"secret": "x"}})
	attempts := 0
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if attempts++; attempts == 1 {
			return mover.Result{Reason: mover.ReasonOutOfRange, Message: "it can be from here to there"},
				platformv1.OperationFailed
		}
		return mover.Result{}, platformv1.OperationSucceeded
	}
	b := begins(t, app.Namespace, "redis-b", backup.Name, towards(later))
	held(t, b, platformv1.ReasonTargetOutOfRange, "it can be from here to there. Attempt 2 follows")
	if c := meta.FindStatusCondition(b.Status.Conditions, platformv1.RestoredCondition); c == nil ||
		c.Reason != platformv1.ReasonTargetOutOfRange {
		t.Errorf("it says %+v", b.Status.Conditions)
	}
	begun(t, b, backup)
	if b.Status.RestoredFrom.Time != later.UTC().Format(time.RFC3339) {
		t.Errorf("it says that it began with %+v", b.Status.RestoredFrom)
	}
	container := played.verbs(t, mover.VerbRestore)[0].Spec.Template.Spec.Containers[0]
	if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool {
		return e.Name == mover.TargetEnv && strings.Contains(e.Value, later.UTC().Format(time.RFC3339)) &&
			strings.Contains(e.Value, `"log":"there"`)
	}) {
		t.Errorf("its environment is %+v", container.Env)
	}
}

// A mover that is lost has a successor; data that is damaged starts nothing.
func TestRestoreThatFails(t *testing.T) {
	app, played := wayBack(t)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	backup := backupIs(t, app.Namespace, "nightly-backup", platformv1.BackupCompleted)
	attempts := 0
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if attempts++; p.Verb == mover.VerbRestore && attempts == 1 {
			return mover.Result{}, platformv1.OperationFailed
		}
		return mover.Result{}, platformv1.OperationSucceeded
	}
	b := begins(t, app.Namespace, "redis-b", backup.Name)
	held(t, b, platformv1.ReasonRestoreFailed, "Attempt 2 follows")
	begun(t, b, backup)
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 2 {
		t.Errorf("there were %d movers", len(movers))
	}
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		return mover.Result{Reason: mover.ReasonDamaged, Message: "the part 1 is not what it was"}, platformv1.OperationFailed
	}
	c := begins(t, app.Namespace, "redis-c", backup.Name)
	held(t, c, platformv1.ReasonRestoreFailed, "the part 1 is not what it was. It is not tried again")
}

// Whatever crashes, one mover brings the data.
func TestRestoreSurvivesTheEngine(t *testing.T) {
	app, played := wayBack(t)
	_, _, stop := run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	backup := backupIs(t, app.Namespace, "nightly-backup", platformv1.BackupCompleted)
	stop()
	b := begins(t, app.Namespace, "redis-b", backup.Name)
	survives(t, b)
	run(t, -1)
	begun(t, b, backup)
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 1 {
		t.Errorf("there were %d movers", len(movers))
	}
}

// survives has one engine after another bring an instance on, each until it dies at some write, until it is ready.
func survives(t *testing.T, b *platformv1.Application) {
	t.Helper()
	ready := func() bool {
		refresh(t, b)
		return meta.IsStatusConditionTrue(b.Status.Conditions, platformv1.ReadyCondition)
	}
	for n := 1; n < 80 && !ready(); n++ {
		_, died, stop := run(t, n%7)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for over := false; !over && !ready(); {
			select {
			case <-died:
				over = true
			case <-ctx.Done():
				over = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		cancel()
		stop()
	}
}
