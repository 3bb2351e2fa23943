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

var epoch = time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)

func at(after time.Duration) *metav1.Time { return new(metav1.NewTime(epoch.Add(after))) }

// nightly is a policy for everything.
func nightly(changes ...func(*storagev1.BackupPolicySpec)) *storagev1.BackupPolicy {
	p := &storagev1.BackupPolicy{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "policy"},
		Spec: storagev1.BackupPolicySpec{
			Schedule: "0 2 * * *", TimeZone: "UTC", RepositoryRef: platformv1.RepositoryReference{Name: "store"},
			Timeout: &metav1.Duration{Duration: 6 * time.Hour},
		}}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

// instance is a Redis in namespace shop.
func instance(changes ...func(*platformv1.Application)) platformv1.Application {
	controller := true
	app := platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "redis-a", UID: "app",
		Labels:      map[string]string{"tier": "gold"},
		Annotations: map[string]string{}, OwnerReferences: []metav1.OwnerReference{
			{Kind: "Redis", Name: "a", Controller: &controller}}}}
	for _, change := range changes {
		change(&app)
	}
	return app
}

// placed has the schedule of a policy, which its operator has taken up and last ran at the epoch.
func placed(p *storagev1.BackupPolicy) func(*platformv1.Application) {
	return func(app *platformv1.Application) {
		app.Annotations[annotationPrefix+p.Name] = string(p.UID)
		app.Spec.Schedules = append(app.Spec.Schedules, schedulesOf(p)...)
		app.Status.Schedules = []platformv1.ScheduleStatus{
			{Name: p.Name, NextTime: at(24 * time.Hour), LastTime: at(0), LastOperation: "op"}}
	}
}

func alone(app *platformv1.Application)      { app.OwnerReferences = nil }
func unreported(app *platformv1.Application) { app.Status.Schedules = nil }
func asleep(app *platformv1.Application)     { app.Spec.Suspend = true }
func unrun(app *platformv1.Application)      { app.Status.Schedules[0].LastTime = nil }
func passed(app *platformv1.Application)     { app.Status.Schedules[0].Message = "passed over" }
func itsOwn(app *platformv1.Application)     { delete(app.Annotations, annotationPrefix+"nightly") }
func edited(app *platformv1.Application)     { app.Spec.Schedules[0].TimeZone = "Asia/Tokyo" }
func leaving(app *platformv1.Application)    { app.DeletionTimestamp = at(0) }
func another(app *platformv1.Application) {
	app.Annotations[annotationPrefix+"nightly"] = "the one before"
}
func unable(app *platformv1.Application) {
	app.Status.Schedules[0] = platformv1.ScheduleStatus{Name: "nightly", Reason: platformv1.ReasonNotPossible,
		Message: "the plugin does not say how"}
}
func elsewhere(app *platformv1.Application) { app.Namespace = "bank" }

func backup(name string, phase platformv1.BackupPhase, completed time.Duration) platformv1.Backup {
	return platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:   platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "redis-a"}},
		Status: platformv1.BackupStatus{Phase: phase, CompletionTime: at(completed), Message: "no room"}}
}

// lost is a Backup whose data the inventory did not find.
func lost(b platformv1.Backup) platformv1.Backup {
	b.Status.Message = `what was kept in shop/redis-a/x is not in BackupRepository "store" any more: put it back, or ` +
		`delete this Backup`
	b.Status.Conditions = []metav1.Condition{
		{Type: platformv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: platformv1.ReasonBackupDataMissing,
			Message: b.Status.Message, ObservedGeneration: 3}}
	return b
}

// Policies, and Backups of one.
var (
	one       = nightly()
	suspended = nightly(func(s *storagev1.BackupPolicySpec) { s.Suspend = true })
	whole     = backup("op-backup", platformv1.BackupCompleted, time.Minute)
	failed    = backup("op-backup", platformv1.BackupFailed, time.Minute)
	running   = backup("op-backup", platformv1.BackupRunning, 0)
	earlier   = backup("earlier-backup", platformv1.BackupCompleted, -24*time.Hour)
)

// decideCases are what is known of an instance, and what is done and said.
var decideCases = map[string]struct {
	policy  *storagev1.BackupPolicy
	app     platformv1.Application
	backups []platformv1.Backup
	after   time.Duration
	edits   int
	state   storagev1.BackupSourceState
	says    string
	success bool
}{
	"new": {one, instance(), nil, 0, 1, storagev1.SourceUncovered,
		"has not taken the schedule up", false},
	"placed, and nobody heard": {one, instance(placed(one), unreported), nil, 0, 0, storagev1.SourceUncovered,
		"is it installed", false},
	"placed": {one, instance(placed(one), unrun), nil, 0, 0, storagev1.SourceCovered, "", false},
	"backed up": {one, instance(placed(one)), []platformv1.Backup{earlier, whole}, time.Hour, 0,
		storagev1.SourceCovered, "", true},
	"its plugin cannot": {one, instance(placed(one), unable), nil, time.Hour, 0, storagev1.SourceUncovered,
		"does not say how", false},
	"being backed up": {one, instance(placed(one)), []platformv1.Backup{earlier, running}, time.Hour, 0,
		storagev1.SourceCovered, "", true},
	"it failed": {one, instance(placed(one)), []platformv1.Backup{earlier, failed}, time.Hour, 0,
		storagev1.SourceFailing, "no room", true},
	"its data is gone": {one, instance(placed(one)), []platformv1.Backup{lost(whole)}, time.Hour, 0,
		storagev1.SourceFailing, `Backup "op-backup" has no data any more: what was kept in shop/redis-a/x`, false},
	"gone, and one before is there": {one, instance(placed(one)), []platformv1.Backup{earlier, lost(whole)}, time.Hour, 0,
		storagev1.SourceFailing, "put it back, or delete this Backup", true},
	"that of one before is gone": {one, instance(placed(one)), []platformv1.Backup{lost(earlier), whole}, time.Hour, 0,
		storagev1.SourceCovered, "", true},
	"gone, and it is made anew": {one, instance(placed(one)), []platformv1.Backup{lost(earlier), running}, time.Hour, 0,
		storagev1.SourceCovered, "", false},
	"gone, and the next one failed": {one, instance(placed(one)), []platformv1.Backup{lost(earlier), failed}, time.Hour, 0,
		storagev1.SourceFailing, "no room", false},
	"gone before it ever ran": {one, instance(placed(one), unrun), []platformv1.Backup{lost(earlier)}, time.Hour, 0,
		storagev1.SourceFailing, `Backup "earlier-backup" has no data`, false},
	"gone, and it is about to be": {one, instance(placed(one)), []platformv1.Backup{lost(earlier)}, time.Minute, 0,
		storagev1.SourceFailing, "put it back", false},
	"it was deleted": {one, instance(placed(one)), nil, time.Hour, 0, storagev1.SourceFailing,
		"or somebody deleted it", false},
	"the Operation has begun": {one, instance(placed(one)), nil, time.Minute, 0, storagev1.SourceCovered, "", false},
	"the Operation made none": {one, instance(placed(one)), []platformv1.Backup{earlier}, grace, 0,
		storagev1.SourceFailing, `Operation "op" has made no Backup`, true},
	"a time was passed over": {one, instance(placed(one), passed), []platformv1.Backup{whole}, time.Hour, 0,
		storagev1.SourceFailing, "passed over", true},
	"somebody edited it": {one, instance(placed(one), edited), []platformv1.Backup{whole}, time.Hour, 1,
		storagev1.SourceCovered, "", true},
	"of a policy of before": {one, instance(placed(one), another), []platformv1.Backup{whole}, time.Hour, 1,
		storagev1.SourceCovered, "", true},
	"a schedule of its own": {one, instance(placed(one), itsOwn), nil, 0, 0, storagev1.SourceUncovered, "of its own",
		false},
	"no repository": {one, instance(elsewhere), nil, 0, 0, storagev1.SourceUncovered,
		`no BackupRepository "store" in namespace "bank"`, false},
	"no repository any more": {one, instance(placed(one), elsewhere), nil, 0, 1, storagev1.SourceUncovered,
		"create it", false},
	"the instance is suspended": {one, instance(placed(one), asleep), nil, 0, 0, storagev1.SourceUncovered,
		"the instance is suspended", false},
	"the policy is suspended": {suspended, instance(placed(suspended)), nil, 0, 0, storagev1.SourceUncovered,
		"the policy is suspended", false},
	"it is being deleted":           {one, instance(leaving), nil, 0, 0, "", "", false},
	"the policy is gone":            {nil, instance(placed(one)), nil, 0, 1, "", "", false},
	"gone, and the schedule is own": {nil, instance(placed(one), itsOwn), nil, 0, 0, "", "", false},
}

func TestDecide(t *testing.T) {
	for name, tc := range decideCases {
		t.Run(name, func(t *testing.T) {
			f := facts{now: epoch.Add(tc.after), name: "nightly", policy: tc.policy,
				applications: []platformv1.Application{tc.app}, backups: tc.backups,
				repositories: map[string]struct{}{"shop": {}}}
			got, err := decide(f)
			if err != nil || len(got.edits) != tc.edits {
				t.Fatalf("it edits %+v: %v", got.edits, err)
			}
			if (tc.policy == nil || strings.HasPrefix(name, "no repository any")) && tc.edits > 0 &&
				len(got.edits[0].schedules) > 0 {
				t.Errorf("it brings %+v", got.edits[0].schedules)
			}
			if tc.state == "" {
				if len(got.sources) > 0 {
					t.Errorf("it tells of %+v", got.sources)
				}
				return
			}
			source := got.sources[0]
			if source.State != tc.state || !strings.Contains(source.Message, tc.says) || tc.says == "" && source.Message != "" ||
				(source.LastSuccessTime != nil) != tc.success {
				t.Errorf("it is %+v", source)
			}
			if name == "the Operation has begun" && !got.next.Equal(epoch.Add(grace)) {
				t.Errorf("it looks again at %s", got.next)
			}
		})
	}
}

// The cache keeps no more of the conditions than that the data is gone, and a change of that wakes the policy.
func TestWhatIsKeptOfABackup(t *testing.T) {
	trim := func(b platformv1.Backup) *platformv1.Backup {
		b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue})
		kept, err := trimBackup(&b)
		if err != nil {
			t.Fatal(err)
		}
		return kept.(*platformv1.Backup)
	}
	b := backup("op-backup", platformv1.BackupCompleted, 0)
	there := trim(b)
	b.ResourceVersion = "2"
	gone := trim(lost(b))
	if missing(there) || len(there.Status.Conditions) != 0 {
		t.Errorf("of one that is whole it keeps %+v", there.Status.Conditions)
	}
	if !missing(gone) || len(gone.Status.Conditions) != 1 || gone.Status.Conditions[0].Message != "" ||
		!strings.Contains(gone.Status.Message, "put it back") {
		t.Errorf("of one without data it keeps %+v", gone.Status)
	}
	if !differ(there, gone) || !differ(gone, there) {
		t.Error("that its data is gone, or there again, wakes nobody")
	}
	if failed := trim(lost(backup("op-backup", platformv1.BackupFailed, 0))); missing(failed) {
		t.Error("one that failed is taken for one without data")
	}
}

func TestSelector(t *testing.T) {
	for name, tc := range map[string]struct {
		selector storagev1.BackupSelector
		app      platformv1.Application
		want     bool
	}{
		"everything":        {storagev1.BackupSelector{}, instance(), true},
		"the kind":          {storagev1.BackupSelector{Kinds: []string{"PostgreSQL", "Redis"}}, instance(), true},
		"another kind":      {storagev1.BackupSelector{Kinds: []string{"PostgreSQL"}}, instance(), false},
		"none declares it":  {storagev1.BackupSelector{Kinds: []string{"Application"}}, instance(alone), true},
		"a Redis is none":   {storagev1.BackupSelector{Kinds: []string{"Application"}}, instance(), false},
		"the namespace":     {storagev1.BackupSelector{Namespaces: []string{"shop"}}, instance(), true},
		"another namespace": {storagev1.BackupSelector{Namespaces: []string{"shop"}}, instance(elsewhere), false},
		"the labels": {storagev1.BackupSelector{
			Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}, instance(), true},
		"other labels": {storagev1.BackupSelector{
			Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "tin"}}}, instance(), false},
		"all have to be met": {storagev1.BackupSelector{Namespaces: []string{"shop"}, Kinds: []string{"PostgreSQL"}},
			instance(), false},
	} {
		chosen, err := selectorOf(&tc.selector)
		if err != nil || chosen(&tc.app) != tc.want {
			t.Errorf("%s: chosen %v, want %v: %v", name, !tc.want, tc.want, err)
		}
	}
	bad := &storagev1.BackupSelector{Labels: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}
	if _, err := selectorOf(bad); err == nil || !strings.Contains(err.Error(), "selector.labels") {
		t.Errorf("a selector that cannot be: %v", err)
	}
}

// What a policy says is in the schedule that it compiles to.
func TestSchedule(t *testing.T) {
	count, ttl := int32(7), int32(3600)
	got := scheduleOf(nightly(func(s *storagev1.BackupPolicySpec) {
		s.Method, s.Compression, s.Suspend, s.TTLSecondsAfterFinished = "base", platformv1.CompressionGzip, true, &ttl
		s.Retention = &platformv1.BackupRetention{MaxCount: &count, MaxAge: &metav1.Duration{Duration: 720 * time.Hour}}
	}))
	want := platformv1.Parameters{"repository": "store", "method": "base", "compression": "Gzip", "maxCount": "7",
		"maxAge": "720h0m0s"}
	for name, value := range want {
		if got.Operation.Parameters[name] != value {
			t.Errorf("parameter %q is %q, want %q", name, got.Operation.Parameters[name], value)
		}
	}
	if len(got.Operation.Parameters) != len(want) || got.Name != "nightly" || !got.Suspend ||
		got.MissedRuns != platformv1.MissedLatest || got.Concurrency != platformv1.ConcurrencySkip ||
		got.Operation.TemplateRef != "Backup" || got.Operation.Timeout.Duration != 6*time.Hour ||
		*got.Operation.TTLSecondsAfterFinished != ttl {
		t.Errorf("it is %+v", got)
	}
}

func TestReport(t *testing.T) {
	covered := storagev1.BackupPolicySource{Namespace: "b", Application: "c", State: storagev1.SourceCovered,
		NextTime: at(time.Hour), LastSuccessTime: at(-time.Hour)}
	later := storagev1.BackupPolicySource{Namespace: "a", Application: "l", State: storagev1.SourceCovered,
		NextTime: at(2 * time.Hour), LastSuccessTime: at(-2 * time.Hour)}
	failing := storagev1.BackupPolicySource{Namespace: "z", Application: "f", State: storagev1.SourceFailing,
		Message: "no room"}
	uncovered := storagev1.BackupPolicySource{Namespace: "z", Application: "u", State: storagev1.SourceUncovered,
		Message: "no repository"}
	for name, tc := range map[string]struct {
		sources []storagev1.BackupPolicySource
		pending int
		refusal string
		ready   metav1.ConditionStatus
		reason  string
		says    string
	}{
		"nothing":     {nil, 0, "", metav1.ConditionTrue, "", "all of 0"},
		"all is well": {[]storagev1.BackupPolicySource{covered, later}, 0, "", metav1.ConditionTrue, "", "all of 2"},
		"one fails": {[]storagev1.BackupPolicySource{covered, failing}, 0, "", metav1.ConditionFalse, reasonFailing,
			"z/f: no room"},
		"one is not": {[]storagev1.BackupPolicySource{covered, failing, uncovered}, 0, "", metav1.ConditionFalse,
			reasonUncovered, "1 of 3 instances are not covered: z/u: no repository"},
		"one is about": {[]storagev1.BackupPolicySource{covered, uncovered}, 1, "", metav1.ConditionFalse,
			platformv1.ReasonProgressing, "z/u"},
		"it cannot be": {nil, 0, "no such day", metav1.ConditionFalse, platformv1.ReasonInvalidSpec, "no such day"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := nightly()
			report(policy, plan{sources: tc.sources, pending: tc.pending}, tc.refusal)
			ready := conditions.Get(policy, platformv1.ReadyCondition)
			if ready == nil || ready.Status != tc.ready || tc.reason != "" && ready.Reason != tc.reason ||
				!strings.Contains(ready.Message, tc.says) {
				t.Errorf("Ready is %+v", ready)
			}
			if name == "all is well" && (policy.Status.Sources[0].Application != "l" ||
				!policy.Status.NextTime.Equal(at(time.Hour)) || !policy.Status.LastSuccessTime.Equal(at(-time.Hour))) {
				t.Errorf("the status is %+v", policy.Status)
			}
			if name == "one is not" && (policy.Status.Sources[0].State != storagev1.SourceUncovered ||
				policy.Status.Sources[1].State != storagev1.SourceFailing) {
				t.Errorf("the sources are %+v", policy.Status.Sources)
			}
		})
	}
}
