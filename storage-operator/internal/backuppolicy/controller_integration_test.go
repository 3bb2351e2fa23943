// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backuppolicy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/objectcache"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/storage-operator/config/crd"
)

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the controller serves all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{storagev1.AddToScheme},
		CRDs:        []fs.FS{os.DirFS("../../../platform-core/config/crd/bases"), crd.FS},
		System:      "zeroinfra-system", Roles: []fs.FS{os.DirFS("../../config/rbac")},
	})
}

// serve runs the controller until the test ends, or it is told to stop: of the namespaces, of all when none is named.
func serve(t *testing.T, namespaces ...string) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(env.System.Config,
		ctrl.Options{Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
			NewCache: objectcache.New, Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		t.Fatal(err)
	}
	check := func(line platformv1.CronLine, _ platformv1.TimeZone) error {
		if line == "0 0 30 2 *" {
			return errors.New("schedule names a day that never comes")
		}
		return nil
	}
	settings := operator.ControllerSettings{CheckSchedule: check}
	for _, namespace := range namespaces {
		if settings.Namespaces == nil {
			settings.Namespaces = map[string]cache.Config{}
		}
		settings.Namespaces[namespace] = cache.Config{}
	}
	if err := (Kind{}).Setup(mgr, settings); err != nil {
		t.Fatal(err)
	}
	return testkit.Run(t, mgr)
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatalf("cannot create %T %q: %v", object, object.GetName(), err)
		}
	}
}

func store(namespace string) *platformv1.BackupRepository {
	return &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store"},
		Spec: platformv1.BackupRepositorySpec{PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: "disk"}}}
}

// policy is one of a namespace alone; it is gone when the test ends.
func policy(t *testing.T, name, namespace string) *storagev1.BackupPolicy {
	t.Helper()
	p := &storagev1.BackupPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.BackupPolicySpec{
		Selector: storagev1.BackupSelector{Namespaces: []string{namespace}}, Schedule: "0 2 * * *", TimeZone: "Europe/Berlin",
		RepositoryRef: platformv1.RepositoryReference{Name: "store"},
	}}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), p) })
	return p
}

// schedules waits until an Application has these.
func schedules(t *testing.T, app *platformv1.Application, want ...string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, fmt.Sprintf("the schedules %v", want), func() error {
		var names []string
		for _, s := range app.Spec.Schedules {
			names = append(names, s.Name)
		}
		if strings.Join(names, " ") != strings.Join(want, " ") {
			return fmt.Errorf("it has %v", names)
		}
		return nil
	})
}

// says waits until a policy does, of its only instance.
func says(t *testing.T, p *storagev1.BackupPolicy, state storagev1.BackupSourceState, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, p, string(state)+": "+text, func() error {
		if len(p.Status.Sources) != 1 || p.Status.Sources[0].State != state ||
			!strings.Contains(p.Status.Sources[0].Message, text) {
			return fmt.Errorf("it says %+v", p.Status)
		}
		return nil
	})
	if err := testkit.StatusLint(p); err != nil {
		t.Error(err)
	}
}

// takenUp plays the operator of an instance.
func takenUp(t *testing.T, app *platformv1.Application, name string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, "itself", nil)
	before := app.DeepCopy()
	app.Status.Schedules = []platformv1.ScheduleStatus{
		{Name: name, NextTime: new(metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second)))}}
	if err := env.Client.Status().Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// The schedule comes beside those that are there, is covered once its operator says so, follows the policy, and goes
// with it, also while nobody serves.
func TestLifeOfAPolicy(t *testing.T) {
	namespace := env.Namespace(t)
	stop := serve(t)
	own := platformv1.Schedule{Name: "weekly", Schedule: "0 3 * * 0", TimeZone: "UTC",
		Operation: platformv1.ScheduledOperation{TemplateRef: "Restart"}}
	app := testkit.BuildApplication(namespace, "a").Domain("database").Build()
	app.Spec.Schedules = []platformv1.Schedule{own}
	p := policy(t, "life", namespace)
	create(t, app, p)
	says(t, p, storagev1.SourceUncovered, `no BackupRepository "store"`)
	create(t, store(namespace))
	schedules(t, app, "weekly", "life")
	made := app.Spec.Schedules[1]
	if made.TimeZone != "Europe/Berlin" || made.Operation.TemplateRef != "Backup" ||
		made.Operation.Parameters["repository"] != "store" || made.Operation.Timeout.Duration != 6*time.Hour {
		t.Errorf("the schedule is %+v", made)
	}
	says(t, p, storagev1.SourceUncovered, "has not taken the schedule up")
	takenUp(t, app, "life")
	testkit.WaitForReady(t, env.Client, p)
	if p.Status.Selected != 1 || p.Status.Uncovered != 0 || p.Status.NextTime == nil {
		t.Errorf("the status is %+v", p.Status)
	}
	before := p.DeepCopy()
	p.Spec.Schedule = "30 4 * * *"
	if err := env.Client.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "another line", func() error {
		if s := scheduleIn(app, "life"); s == nil || s.Schedule != "30 4 * * *" {
			return fmt.Errorf("the schedules are %+v", app.Spec.Schedules)
		}
		return nil
	})
	generation := app.Generation
	stop()
	if err := env.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, p)
	serve(t)
	schedules(t, app, "weekly")
	if app.Generation != generation+1 || len(app.Annotations) > 0 {
		t.Errorf("the Application has generation %d, which was %d, and annotations %v", app.Generation, generation,
			app.Annotations)
	}
}

// A policy that cannot be decoded is none that is gone: its schedules stay, also after a restart, and it is followed
// again once it is corrected.
func TestAPolicyThatCannotBeDecodedTakesNothingAway(t *testing.T) {
	namespace := env.Namespace(t)
	stop := serve(t)
	app := testkit.BuildApplication(namespace, "a").Domain("database").Build()
	p := policy(t, "spoilt", namespace)
	create(t, store(namespace), app, p)
	schedules(t, app, "spoilt")
	generation := app.Generation
	timeout := func(value string) error {
		change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeout":`+value+`}}`))
		return env.Client.Patch(t.Context(), p.DeepCopy(), change)
	}
	testkit.Refused(t, timeout(`"1d"`), "must be a duration such as 90s, 15m or 1h30m")
	env.Unchecked(t, "backuppolicies.storage.zeroinfra.github.com", func(context.Context) error {
		// It is written, and what comes back does not decode here either.
		_ = timeout(`"1d"`)
		return nil
	})
	stop()
	serve(t)
	// Whatever brings the schedule of this one has the other looked at, too.
	other := policy(t, "other", namespace)
	create(t, other)
	schedules(t, app, "spoilt", "other")
	if err := timeout("null"); err != nil {
		t.Fatal(err)
	}
	corrected := p.DeepCopy()
	corrected.Spec.Schedule = "30 4 * * *"
	if err := env.Client.Patch(t.Context(), corrected, client.MergeFrom(p)); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "another line", func() error {
		if s := scheduleIn(app, "spoilt"); s == nil || s.Schedule != "30 4 * * *" {
			return fmt.Errorf("the schedules are %+v", app.Spec.Schedules)
		}
		return nil
	})
	if edits := app.Generation - generation; edits != 2 {
		t.Errorf("the Application was edited %d times, for another policy and for another line: want 2", edits)
	}
}

// Operators that serve different namespaces share the status of a policy: each reports its own instances, and keeps
// those of the other.
func TestPolicyOfTwoOperators(t *testing.T) {
	one, two := env.Namespace(t), env.Namespace(t)
	serve(t, one)
	serve(t, two)
	p := policy(t, "shared", one)
	p.Spec.Selector.Namespaces = []string{one, two}
	create(t, testkit.BuildApplication(one, "a").Domain("database").Build(),
		testkit.BuildApplication(two, "a").Domain("database").Build(), p)
	testkit.WaitFor(t, env.Client, p, "the instances of both", func() error {
		if len(p.Status.Sources) != 2 || p.Status.Selected != 2 {
			return fmt.Errorf("it says %+v", p.Status)
		}
		return nil
	})
}

// A Backup whose data the inventory does not find is none, and one again when it does: the policy hears of both.
func TestPolicyWhoseLastBackupHasNoData(t *testing.T) {
	namespace := env.Namespace(t)
	serve(t)
	app := testkit.BuildApplication(namespace, "a").Domain("database").Build()
	p := policy(t, "gone", namespace)
	create(t, store(namespace), app, p)
	schedules(t, app, "gone")
	takenUp(t, app, "gone")
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	before := app.DeepCopy()
	app.Status.Schedules[0].LastTime, app.Status.Schedules[0].LastOperation = &now, "op"
	if err := env.Client.Status().Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op-backup",
		Labels: map[string]string{platformv1.ScheduleLabel: "gone"}}, Spec: platformv1.BackupSpec{
		ApplicationRef: platformv1.ApplicationReference{Name: app.Name},
		RepositoryRef:  platformv1.RepositoryReference{Name: "store"}, Method: "rdb",
		Timeout: metav1.Duration{Duration: time.Hour},
	}}
	// Nobody but an operator makes one.
	operators, err := client.New(env.System.Config, client.Options{Scheme: env.Scheme})
	if err == nil {
		err = operators.Create(t.Context(), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	ready := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		before := b.DeepCopy()
		b.Status.Phase, b.Status.CompletionTime, b.Status.Message = platformv1.BackupCompleted, &now, message
		b.Status.Conditions = []metav1.Condition{
			{Type: platformv1.ReadyCondition, Status: status, Reason: reason, LastTransitionTime: now}}
		if err := env.Client.Status().Patch(t.Context(), b, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	there := func(name string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, p, "the last backup "+name, func() error {
			if len(p.Status.Sources) != 1 || p.Status.Sources[0].LastBackup != name {
				return fmt.Errorf("it says %+v", p.Status.Sources)
			}
			return nil
		})
	}
	ready(metav1.ConditionTrue, "Ready", "")
	there("op-backup")
	testkit.WaitForReady(t, env.Client, p)
	ready(metav1.ConditionFalse, platformv1.ReasonBackupDataMissing, "put it back, or delete this Backup")
	says(t, p, storagev1.SourceFailing, `Backup "op-backup" has no data any more: put it back`)
	there("")
	ready(metav1.ConditionTrue, "Ready", "")
	there("op-backup")
	testkit.WaitForReady(t, env.Client, p)
}

// What is somebody else's is left alone, and what cannot be is said and touches nothing.
func TestPoliciesThatCannotBe(t *testing.T) {
	namespace := env.Namespace(t)
	serve(t)
	app := testkit.BuildApplication(namespace, "a").Domain("database").Build()
	app.Spec.Schedules = []platformv1.Schedule{
		{Name: "taken", Schedule: "0 3 * * 0", TimeZone: "UTC",
			Operation: platformv1.ScheduledOperation{TemplateRef: "Restart"}}}
	taken, never := policy(t, "taken", namespace), policy(t, "never", namespace)
	never.Spec.Schedule = "0 0 30 2 *"
	create(t, store(namespace), app, taken, never)
	says(t, taken, storagev1.SourceUncovered, "of its own")
	says(t, never, storagev1.SourceUncovered, "never comes")
	schedules(t, app, "taken")
	if app.Spec.Schedules[0].Operation.TemplateRef != "Restart" {
		t.Errorf("the schedule is %+v", app.Spec.Schedules[0])
	}
	for name, change := range map[string]func(*storagev1.BackupPolicy){
		"a name that is none of a schedule": func(p *storagev1.BackupPolicy) { p.Name = "a.b" },
		"a name that is too long":           func(p *storagev1.BackupPolicy) { p.Name = strings.Repeat("a", 25) },
		"no cron line":                      func(p *storagev1.BackupPolicy) { p.Spec.Schedule = "@daily" },
		"no zone":                           func(p *storagev1.BackupPolicy) { p.Spec.TimeZone = "Local" },
		"a retention of nothing": func(p *storagev1.BackupPolicy) {
			p.Spec.Retention = &platformv1.BackupRetention{}
		},
		"no repository": func(p *storagev1.BackupPolicy) { p.Spec.RepositoryRef.Name = "" },
	} {
		p := policy(t, "bad", namespace)
		change(p)
		if err := env.Client.Create(t.Context(), p); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
