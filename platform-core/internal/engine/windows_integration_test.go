// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// The wait for a window is told all the way up, and what does not disturb goes on.
func TestAnInstanceWaitsForItsMaintenanceWindow(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := application(namespace)
	tokyo := time.FixedZone("", 9*3600)
	opens := time.Now().In(tokyo).Add(12 * time.Hour).Truncate(time.Hour)
	app.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{
		Schedule: platformv1.CronLine(fmt.Sprintf("0 %d * * *", opens.Hour())),
		Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "Asia/Tokyo",
	}}}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	pod := onlyPod(t, namespace)
	says := func(reason, text string) {
		t.Helper()
		testkit.WaitFor(t, env.Client, app, reason+": "+text, func() error {
			ready := conditions.Get(app, platformv1.ReadyCondition)
			if ready.ObservedGeneration != app.Generation || ready.Reason != reason || !strings.Contains(ready.Message, text) {
				return fmt.Errorf("it says %+v", ready)
			}
			return nil
		})
		if err := testkit.StatusLint(app); err != nil {
			t.Error(err)
		}
	}
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{
			{Name: "redis", Scheduling: &platformv1.Scheduling{NodeSelector: map[string]string{"disk": "fast"}}}}
	})
	says(platformv1.ReasonWaitingForMaintenance,
		fmt.Sprintf("next %s (Asia/Tokyo): pod redis-a-redis-main-0 is to be replaced",
			opens.Format("2006-01-02T15:04Z07:00")))
	if !conditions.IsTrue(app, platformv1.ReconcilingCondition) || app.Status.Phase != platformv1.PhaseUpdating ||
		app.Status.Primary != pod.Name {
		t.Errorf("status: %+v", app.Status)
	}
	// A line that cron itself refuses is told, and the windows from before hold.
	good := app.Spec.Maintenance.DeepCopy()
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Maintenance.Windows[0].Schedule = "0 2 31 2 *" })
	says(platformv1.ReasonInvalidSpec, `maintenance.windows[0]: schedule "0 2 31 2 *" is not valid: it names a day `+
		"that never comes")
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Maintenance = good })
	says(platformv1.ReasonWaitingForMaintenance, "is to be replaced")
	if now := onlyPod(t, namespace); now.UID != pod.UID {
		t.Fatal("the pod was replaced outside of the windows")
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Maintenance = nil })
	testkit.WaitForReady(t, env.Client, app)
	if now := onlyPod(t, namespace); now.UID == pod.UID || now.Spec.NodeSelector["disk"] != "fast" {
		t.Errorf("the pod was not replaced: %+v", now.Spec.NodeSelector)
	}
}

// A new password waits for a window in which the processes take it over, and so do the clients.
func TestClientsKeepThePasswordThatTheProcessesHave(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	password := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		StringData: map[string]string{"password": "before"}}
	if err := env.Client.Create(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	app := application(namespace)
	app.Spec.Credentials = []platformv1.Credential{
		{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "mine", Key: "password"}}}
	opens := time.Now().UTC().Add(12 * time.Hour)
	app.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{
		Schedule: platformv1.CronLine(fmt.Sprintf("0 %d * * *", opens.Hour())),
		Duration: metav1.Duration{Duration: 2 * time.Hour}, TimeZone: "UTC",
	}}}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	binding := func() string {
		t.Helper()
		secret := &corev1.Secret{}
		if err := env.Client.Get(t.Context(),
			client.ObjectKey{Namespace: namespace, Name: platformv1.BindingNameFor(app.Name)}, secret); err != nil {
			t.Fatal(err)
		}
		return string(secret.Data["password"])
	}
	if got := binding(); got != "before" {
		t.Fatalf("the binding has %q", got)
	}
	if err := testkit.Edit(t.Context(), env.Client, password,
		func() { password.StringData = map[string]string{"password": "after"} }); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "the wait for a window", func() error {
		if ready := conditions.Get(app, platformv1.ReadyCondition); ready.Reason != platformv1.ReasonWaitingForMaintenance {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	if got := binding(); got != "before" {
		t.Errorf("clients are told %q, which no process knows", got)
	}
}

// cancelsUnbegun cancels one that has done nothing yet.
func cancelsUnbegun(t *testing.T, op *platformv1.Operation) {
	t.Helper()
	if err := tryCancel(t, op); err != nil {
		t.Fatal(err)
	}
	if ended := ends(t, op, platformv1.OperationCancelled); ended.Steps[0].Attempts != 0 {
		t.Errorf("it was begun: %+v", ended.Steps)
	}
}

// An Operation that would restart pods waits for a window before it touches anything, says for which, lets others run,
// and can be cancelled.
func TestOperationsWaitForAMaintenanceWindow(t *testing.T) {
	// It says what it requests: without that the plugin's request of cpu would go with the first word of memory, which
	// takes another pod.
	app := served(t, ownMemory, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	})
	opens := time.Now().UTC().Add(12 * time.Hour)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{
			Schedule: platformv1.CronLine(fmt.Sprintf("0 %d * * *", opens.Hour())),
			Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC",
		}}}
	})
	testkit.WaitForReady(t, env.Client, app)
	first, old := planned(t, app, ""), passwordIn(t, app, "redis-a-default")
	waitsFor := func(op *platformv1.Operation, why string) {
		t.Helper()
		says := fmt.Sprintf("waiting for the maintenance window, next %s (UTC): %s", opens.Format("2006-01-02T15:00Z07:00"),
			why)
		testkit.WaitFor(t, env.Client, op, "waits for the window", func() error {
			held, ready := conditions.Get(op, platformv1.HeldCondition), conditions.Get(op, platformv1.ReadyCondition)
			if held == nil || held.Message != says || ready.Reason != platformv1.ReasonWaitingForMaintenance ||
				!strings.Contains(ready.Message, says) {
				return fmt.Errorf("it says %+v, %+v", held, ready)
			}
			return testkit.StatusLint(op)
		})
	}
	waits := func(op *platformv1.Operation) {
		t.Helper()
		waitsFor(op, "pod redis-a-redis-main-0 is to be restarted or replaced")
	}
	// One that a schedule made for a window has missed that when its turn comes.
	late := &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "late",
			Labels: map[string]string{platformv1.TriggerLabel: string(platformv1.TriggerSchedule)}},
		Spec: platformv1.OperationSpec{TemplateRef: "Restart",
			TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
				Name: app.Name}},
	}
	// Only an operator says of one that a schedule made it.
	operator, err := client.New(account.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Create(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	waitsFor(late, "a schedule asked for it, and it takes out pods")
	cancelsUnbegun(t, late)
	rotate, upgrade := operate(t, app, "rotate", "RotateCredentials", nil),
		operate(t, app, "upgrade", "UpgradePaaS", nil, "version", "8.0")
	waits(rotate)
	waits(upgrade)
	// Both are older: what can be had while the pod runs on waits for no window.
	resize := operate(t, app, "resize", "VerticalScaleResource", nil, "memory", "768Mi")
	if resizes(t) {
		ends(t, resize, platformv1.OperationSucceeded)
	} else {
		waits(resize)
		cancelsUnbegun(t, resize)
	}
	cancelsUnbegun(t, upgrade)
	refresh(t, app)
	if passwordIn(t, app, "redis-a-default") != old || app.Spec.Version != "7.0" {
		t.Error("something was touched outside of the windows")
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Maintenance = nil })
	takesOver(t, app, planned(t, app, first.Credentials["default"]))
	ends(t, rotate, platformv1.OperationSucceeded)
	if held := conditions.Get(rotate, platformv1.HeldCondition); held == nil || held.Status != metav1.ConditionFalse ||
		held.Reason != platformv1.ReasonWindowOpen {
		t.Errorf("it says %+v", held)
	}
}

func TestMalformedWindowsAreRefusedAtAdmission(t *testing.T) {
	namespace := env.Namespace(t)
	for name, tc := range map[string]struct {
		window platformv1.MaintenanceWindow
		text   string
	}{
		"zone": {platformv1.MaintenanceWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour},
			TimeZone: "Europe/Utopia"}, "unknown time zone Europe/Utopia"},
		"local": {platformv1.MaintenanceWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour},
			TimeZone: "Local"}, "timeZone must be the name of a time zone"},
		"schedule": {platformv1.MaintenanceWindow{Schedule: "0 24 * * *", Duration: metav1.Duration{Duration: time.Hour},
			TimeZone: "UTC"}, "schedule must be a cron line of five fields"},
		"interval": {platformv1.MaintenanceWindow{Schedule: "@every 1h", Duration: metav1.Duration{Duration: time.Hour},
			TimeZone: "UTC"}, "schedule must be a cron line of five fields"},
		"short": {platformv1.MaintenanceWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Second},
			TimeZone: "UTC"}, "duration must be between 1m and 168h"},
		"long": {platformv1.MaintenanceWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: 169 * time.Hour},
			TimeZone: "UTC"}, "duration must be between 1m and 168h"},
	} {
		app := testkit.BuildApplication(namespace, name).Build()
		app.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{tc.window}}
		if err := env.Client.Create(t.Context(), app); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %s", name, err, tc.text)
		}
	}
	good := testkit.BuildApplication(namespace, "good").Build()
	good.Spec.Maintenance = &platformv1.Maintenance{}
	for _, line := range []platformv1.CronLine{"0 2 * * *", "*/15 0-3,22 1-7 jan,JUL mon-fri", "05 02 31 12 6"} {
		good.Spec.Maintenance.Windows = append(good.Spec.Maintenance.Windows, platformv1.MaintenanceWindow{
			Schedule: line, Duration: metav1.Duration{Duration: 90 * time.Minute}, TimeZone: "America/Argentina/Buenos_Aires",
		})
	}
	if err := env.Client.Create(t.Context(), good); err != nil {
		t.Error(err)
	}
}

// onlyPod returns the pod of an instance that has one.
func onlyPod(t *testing.T, namespace string) *corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("there are %d pods", len(list.Items))
	}
	return &list.Items[0]
}
