// SPDX-License-Identifier: Apache-2.0

package backuppolicy

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

func drilling(s *storagev1.BackupPolicySpec) {
	s.Drill = &storagev1.BackupDrill{Schedule: "0 4 * * 0", Timeout: &metav1.Duration{Duration: time.Hour}}
}

// drilled has the schedule of the drill, which last ran at the epoch.
func drilled(app *platformv1.Application) {
	app.Annotations[drillPrefix+"nightly"] = "policy"
	app.Status.Schedules = append(app.Status.Schedules,
		platformv1.ScheduleStatus{Name: "nightly-drill", NextTime: at(48 * time.Hour), LastTime: at(0),
			LastOperation: "drill-op"})
}

func verified(outcome platformv1.VerificationOutcome, after time.Duration) platformv1.Backup {
	b := backup("op-backup", platformv1.BackupCompleted, time.Minute)
	b.Status.Verified = &platformv1.BackupVerification{Outcome: outcome, Time: *at(after), Message: "key 7 cannot be read",
		Operation: "drill-op"}
	return b
}

func TestDrillOfAPolicy(t *testing.T) {
	p := nightly(drilling)
	for name, tc := range map[string]struct {
		backups []platformv1.Backup
		now     time.Duration
		status  metav1.ConditionStatus
		says    string
	}{
		"none yet": {nil, time.Minute, metav1.ConditionUnknown, "no drill has come to an end"},
		"good": {[]platformv1.Backup{verified(platformv1.VerificationPassed, time.Minute)}, 24 * time.Hour,
			metav1.ConditionTrue, "of 1 instances 1 had a drill"},
		"bad": {[]platformv1.Backup{verified(platformv1.VerificationFailed, time.Minute)}, 24 * time.Hour,
			metav1.ConditionFalse, `Backup "op-backup" is not good: key 7`},
		"unfinished": {[]platformv1.Backup{verified(platformv1.VerificationUnfinished, time.Minute)}, 24 * time.Hour,
			metav1.ConditionFalse, "it is not known whether"},
		"nothing": {nil, 2 * time.Hour, metav1.ConditionFalse, `Operation "drill-op" has verified nothing`},
		"not again": {[]platformv1.Backup{verified(platformv1.VerificationPassed, -time.Hour)}, 2 * time.Hour,
			metav1.ConditionFalse, `Operation "drill-op" has verified nothing`},
		"on its way": {[]platformv1.Backup{verified(platformv1.VerificationPassed, -time.Hour)}, time.Minute,
			metav1.ConditionTrue, "1 had a drill"},
		"mended": {[]platformv1.Backup{verified(platformv1.VerificationFailed, time.Minute),
			verified(platformv1.VerificationPassed, time.Hour)}, 24 * time.Hour,
			metav1.ConditionTrue, "found the last backup of each good"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := p.DeepCopy()
			f := facts{now: epoch.Add(tc.now), name: "nightly", policy: policy,
				applications: []platformv1.Application{instance(placed(p), drilled)}, backups: tc.backups,
				repositories: map[string]struct{}{"shop": {}}}
			got, err := decide(f)
			if err != nil || len(got.edits) != 0 || len(got.sources) != 1 {
				t.Fatalf("it is %+v: %v", got, err)
			}
			report(policy, got, "")
			c := conditions.Get(policy, platformv1.BackupsVerifiedCondition)
			if c == nil || c.Status != tc.status || !strings.Contains(c.Message, tc.says) ||
				got.sources[0].NextDrillTime == nil {
				t.Errorf("it says %+v of %+v, want %s: %s", c, got.sources[0], tc.status, tc.says)
			}
			if (policy.Status.Unverified > 0) != (tc.status == metav1.ConditionFalse) {
				t.Errorf("%d are unverified", policy.Status.Unverified)
			}
			if name == "on its way" && !got.next.Equal(epoch.Add(time.Hour+grace)) {
				t.Errorf("it looks again at %s", got.next)
			}
		})
	}
}

// The schedules of a policy are brought together, and that of a drill is taken away when the policy has none any more.
// The copies of drills are nobody's instances.
func TestSchedulesOfADrill(t *testing.T) {
	for name, tc := range map[string]struct {
		policy *storagev1.BackupPolicy
		app    platformv1.Application
		edits  []string
		says   string
	}{
		"new":        {nightly(drilling), instance(), []string{"nightly", "nightly-drill"}, ""},
		"added":      {nightly(drilling), instance(placed(nightly())), []string{"nightly", "nightly-drill"}, ""},
		"there":      {nightly(drilling), instance(placed(nightly(drilling)), drilled), nil, ""},
		"taken away": {nightly(), instance(placed(nightly()), drilled), []string{"nightly"}, ""},
		"its own": {nightly(drilling), instance(
			func(app *platformv1.Application) { app.Spec.Schedules = []platformv1.Schedule{{Name: "nightly-drill"}} }), nil,
			`it has a schedule "nightly-drill" of its own`},
	} {
		got, err := decide(facts{now: epoch, name: "nightly", policy: tc.policy,
			applications: []platformv1.Application{tc.app}, repositories: map[string]struct{}{"shop": {}}})
		if err != nil || len(got.sources) != 1 || tc.says != "" && got.sources[0].Message != tc.says+
			": give one of the two another name" {
			t.Errorf("%s: it is %+v: %v", name, got, err)
			continue
		}
		var names []string
		for _, e := range got.edits {
			for _, s := range e.schedules {
				names = append(names, s.Name)
			}
		}
		if strings.Join(names, " ") != strings.Join(tc.edits, " ") {
			t.Errorf("%s: it brings %v, want %v", name, names, tc.edits)
		}
	}
	drill := schedulesOf(nightly(drilling))[1]
	if drill.TimeZone != "UTC" || drill.Operation.TemplateRef != "VerifyBackup" ||
		drill.Operation.Parameters["schedule"] != "nightly" || drill.Operation.Timeout.Duration != time.Hour {
		t.Errorf("its schedule is %+v", drill)
	}
	copied := instance(func(app *platformv1.Application) { app.Labels[platformv1.DrillLabel] = "redis-a" })
	got, err := decide(facts{now: epoch, name: "nightly", policy: nightly(),
		applications: []platformv1.Application{copied}, repositories: map[string]struct{}{"shop": {}}})
	if err != nil || len(got.sources)+len(got.edits) != 0 {
		t.Errorf("of a copy it says %+v: %v", got, err)
	}
}

// An instance whose backups nobody can verify says so by itself, and leaves the condition to the others.
func TestDrillThatIsNotPossible(t *testing.T) {
	p := nightly(drilling)
	cluster := func(name string) platformv1.Application {
		app := instance(placed(p), drilled)
		app.Name = name
		app.Status.Schedules[len(app.Status.Schedules)-1] = platformv1.ScheduleStatus{Name: "nightly-drill",
			Reason: platformv1.ReasonNotPossible, Message: "no drill is possible: why"}
		return app
	}
	for name, tc := range map[string]struct {
		applications []platformv1.Application
		backups      []platformv1.Backup
		status       metav1.ConditionStatus
		says         string
	}{
		"beside a good one": {[]platformv1.Application{instance(placed(p), drilled), cluster("cluster")},
			[]platformv1.Backup{verified(platformv1.VerificationPassed, time.Minute)}, metav1.ConditionTrue,
			"of 2 instances 1 had a drill, and it found the last backup of each good; no drill is possible of 1 others; " +
				"shop/cluster: no drill is possible: why"},
		"beside a bad one": {[]platformv1.Application{instance(placed(p), drilled), cluster("cluster")},
			[]platformv1.Backup{verified(platformv1.VerificationFailed, time.Minute)}, metav1.ConditionFalse,
			"1 of 2 instances have no backup that the last drill found good"},
		"alone": {[]platformv1.Application{cluster("cluster")}, nil, metav1.ConditionUnknown,
			"no drill is possible of any instance; shop/cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := p.DeepCopy()
			got, err := decide(facts{now: epoch.Add(24 * time.Hour), name: "nightly", policy: policy,
				applications: tc.applications, backups: tc.backups, repositories: map[string]struct{}{"shop": {}}})
			if err != nil {
				t.Fatal(err)
			}
			report(policy, got, "")
			c := conditions.Get(policy, platformv1.BackupsVerifiedCondition)
			if c == nil || c.Status != tc.status || !strings.Contains(c.Message, tc.says) || policy.Status.Undrillable != 1 {
				t.Errorf("it says %+v, and %d are undrillable, want %s: %s", c, policy.Status.Undrillable, tc.status, tc.says)
			}
		})
	}
}
