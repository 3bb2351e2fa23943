// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// stage is what a drill acts on: what has become of its instance, and what the Backup says.
type stage struct {
	op    *platformv1.Operation
	facts Facts
	// backup is the one that is chosen.
	backup *platformv1.Backup
	// instance, and how often it was made; child is the Operation that verifies.
	instance *platformv1.Application
	made     int
	child    *platformv1.OperationStatus
	// deaf says that the Backup says nothing, lasting that what is left of the instance does not go.
	deaf, lasting answer
	refuse        string
}

func drilling(parameters map[string]platformv1.ParameterValue) *stage {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "redis-a"},
		Spec: platformv1.ApplicationSpec{
			Plugin: "redis", PluginVersion: "1.1.0", Version: "8.0", Topology: "sentinel",
			DataProtection: platformv1.DataProtection{DeletionProtection: true},
			Schedules:      []platformv1.Schedule{{Name: "nightly"}},
			Components: []platformv1.ApplicationComponent{{Name: "sentinel"}, {
				Name: "redis", Replicas: new(int32(3)), Storage: &platformv1.Storage{Size: resource.MustParse("3Gi")},
				Parameters: platformv1.Parameters{"hz": "10", "min-replicas-to-write": "1"},
				Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
			}},
		}}
	s := &stage{
		op: &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "weekly", UID: "op-uid"},
			Spec: platformv1.OperationSpec{TemplateRef: "VerifyBackup", Parameters: parameters}},
		facts: Facts{Now: epoch, Template: Defaults()["VerifyBackup"], Target: `Redis "a"`, Application: app,
			BackupMethods: []BackupMethod{{Name: "rdb", Component: "redis", Default: true,
				Verify: &schema.VerifyMethod{Topology: "standalone", Operation: "Verify", Except: []string{"min-replicas-*"},
					With: map[string]string{"maxclients": "10"}}}}},
		backup: &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly-1", UID: "backup-uid"},
			Spec:   platformv1.BackupSpec{Method: "rdb"},
			Status: platformv1.BackupStatus{Phase: platformv1.BackupCompleted, Version: "7.0"}},
	}
	s.facts.Parameters = ParametersInForce(s.op.Spec, s.facts.Template)
	return s
}

// answer does what the controller does.
func (s *stage) answer(effect *Effect) *Answer {
	switch {
	case effect.Child != nil:
		if s.child == nil {
			s.child = &platformv1.OperationStatus{Phase: platformv1.OperationPending}
		}
		return &Answer{Child: *s.child}
	case effect.Drill.Verb == DrillChoose && s.refuse != "":
		return &Answer{Failure: FailureRefused, Problem: s.refuse}
	case effect.Drill.Verb == DrillChoose:
		return &Answer{Backup: s.backup}
	case effect.Drill.Verb == DrillRead:
		if v := VerdictOf(s.op); v != nil && s.deaf == "" && s.backup != nil {
			s.backup.Status.Verified = &v.Verification
		}
		return &Answer{Backup: s.backup}
	case effect.Drill.Verb == DrillRemove:
		if s.instance != nil && s.lasting != "" {
			return &Answer{Remains: []string{"Application"}}
		}
		s.instance = nil
		return &Answer{}
	case effect.Drill.Verb == DrillMake && s.instance == nil:
		s.instance = effect.Drill.Instance.DeepCopy()
		s.made++
	}
	return &Answer{Instance: s.instance}
}

// reconcile is one reconcile. A crash loses what follows the first so many effects.
func (s *stage) reconcile(crash int) Decision {
	s.facts.Answers = map[string]*Answer{}
	decide := func() Decision {
		if s.op.Status.Phase == "" {
			return Start(s.op, "redis-a", s.facts, nil)
		}
		return Next(s.op, s.facts)
	}
	d := decide()
	for s.op.Status = d.Status; d.Effect != nil && crash != 0; crash-- {
		s.facts.Answers[d.Effect.Key] = s.answer(d.Effect)
		d = decide()
		if crash != 1 {
			s.op.Status = d.Status
		}
	}
	return d
}

func (s *stage) says(conditions ...metav1.Condition) { s.instance.Status.Conditions = conditions }

// begun has the instance be ready with the data.
func (s *stage) begun() {
	s.instance.Status.RestoredFrom = &platformv1.RestoredFrom{Backup: s.backup.Name}
	s.says(metav1.Condition{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue})
}

// fails has the Operation that verifies fail in its step, which has outputs.
func (s *stage) fails(why string, outputs map[string]string) {
	s.child.Phase, s.child.Error = platformv1.OperationFailed, why
	s.child.Steps = []platformv1.StepStatus{{Name: "read", Phase: platformv1.OperationFailed, Outputs: outputs}}
}

func (s *stage) ends(t *testing.T, phase platformv1.OperationPhase, outcome platformv1.VerificationOutcome,
	says string) {
	t.Helper()
	for range 3 {
		if s.reconcile(-1); Finished(s.op) {
			break
		}
	}
	if s.op.Status.Phase != phase || s.instance != nil || s.made > 1 {
		t.Errorf("it is %s: %s, with the instance %v, made %d times", s.op.Status.Phase, s.op.Status.Error, s.instance,
			s.made)
	}
	switch v := s.backup.Status.Verified; {
	case outcome == "" && v != nil:
		t.Errorf("the Backup says %+v", v)
	case outcome != "" && (v == nil || v.Outcome != outcome || v.Operation != "weekly" ||
		!strings.Contains(v.Message, says)):
		t.Errorf("the Backup says %+v, want %s: %s", v, outcome, says)
	}
}

func TestDrillMakesOneSmallInstance(t *testing.T) {
	s := drilling(nil)
	s.reconcile(-1)
	app := s.instance
	if app == nil || len(app.Name) > 38 || app.Labels[platformv1.DrillLabel] != "redis-a" ||
		app.Name != s.op.Status.Steps[0].Outputs[OutputInstance] {
		t.Fatalf("it makes %+v", app)
	}
	spec := app.Spec
	if spec.Version != "7.0" || spec.PluginVersion != "1.1.0" || spec.Topology != "standalone" ||
		spec.DeletionPolicy != platformv1.DeletionPolicyDelete ||
		spec.RestoreFrom.Backup != "nightly-1" || spec.DeletionProtection || len(spec.Schedules) > 0 ||
		len(spec.NetworkPolicy.From) != 1 || len(spec.Components) != 1 {
		t.Errorf("its spec is %+v", spec)
	}
	if c := spec.Components[0]; c.Name != "redis" || *c.Replicas != 1 || c.Storage.Size.String() != "3Gi" ||
		c.Parameters["hz"] != "10" || c.Parameters["maxclients"] != "10" || len(c.Parameters) != 2 ||
		c.Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("its component is %+v", c)
	}
}

// A Backup of several sets can begin an instance with those alone: each has one pod.
func TestDrillHasTheSetsOfItsBackup(t *testing.T) {
	s := drilling(nil)
	s.backup.Status.Sources = []platformv1.BackupSource{{Set: "0"}, {Set: "1"}, {Set: "4"}}
	s.reconcile(-1)
	if s.instance == nil {
		t.Fatal("it makes no instance")
	}
	c := s.instance.Spec.Components[0]
	if want := []platformv1.ComponentSet{{Name: "0"}, {Name: "1"}, {Name: "4"}}; !reflect.DeepEqual(c.Sets, want) ||
		*c.Replicas != 1 {
		t.Errorf("its component has the sets %+v of %d pods, want %+v of one", c.Sets, *c.Replicas, want)
	}
}

// What is on the volumes of many pods goes on that of one.
func TestDrillHasRoomForAll(t *testing.T) {
	for name, tc := range map[string]struct {
		spread  bool
		like    string
		rawSize int64
		want    string
	}{
		"of one pod":              {false, "3Gi", 8 << 30, "3Gi"},
		"of many":                 {true, "3Gi", 8 << 30, "11Gi"},
		"of many with much room":  {true, "30Gi", 8 << 30, "30Gi"},
		"of many with no storage": {true, "", 1, "2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			s := drilling(nil)
			s.facts.BackupMethods[0].Spread, s.backup.Status.RawSize = tc.spread, tc.rawSize
			part := &s.facts.Application.Spec.Components[1]
			part.Storage.StorageClassName = new("fast")
			if tc.like == "" {
				part.Storage = nil
			} else {
				part.Storage.Size = resource.MustParse(tc.like)
			}
			s.reconcile(-1)
			storage := s.instance.Spec.Components[0].Storage
			if storage.Size.String() != tc.want || (storage.StorageClassName == nil) != (tc.like == "") {
				t.Errorf("its volume is %+v, want %s", storage, tc.want)
			}
		})
	}
}

func TestDrillGoesByWhatItFinds(t *testing.T) {
	for name, tc := range map[string]struct {
		found   func(s *stage)
		phase   platformv1.OperationPhase
		outcome platformv1.VerificationOutcome
		says    string
	}{
		"good": {func(s *stage) { s.child.Phase = platformv1.OperationSucceeded }, platformv1.OperationSucceeded,
			platformv1.VerificationPassed, "found the data good"},
		"bad": {func(s *stage) { s.fails("key 7 cannot be read", map[string]string{outputDataBad: string(yes)}) },
			platformv1.OperationFailed, platformv1.VerificationFailed, "key 7 cannot be read"},
		"out of reach": {func(s *stage) { s.fails("cannot connect", nil) }, platformv1.OperationFailed,
			platformv1.VerificationUnfinished, "cannot connect"},
		"nobody looked": {func(s *stage) { s.child.Phase = platformv1.OperationCancelled }, platformv1.OperationFailed,
			platformv1.VerificationUnfinished, "was cancelled"},
		"deleted": {func(s *stage) { s.instance = nil }, platformv1.OperationFailed, platformv1.VerificationUnfinished,
			"somebody deleted its instance"},
		"damaged": {func(s *stage) {
			s.instance.Status.Components = []platformv1.ComponentState{
				{Sets: []platformv1.SetState{{Restore: &platformv1.RestoreState{Final: true, Reason: mover.ReasonDamaged,
					Message: "BackupDamaged: part 1"}}}}}
		}, platformv1.OperationFailed, platformv1.VerificationFailed, "BackupDamaged: part 1"},
		"no room": {func(s *stage) {
			s.instance.Status.Components = []platformv1.ComponentState{
				{Sets: []platformv1.SetState{{Restore: &platformv1.RestoreState{Final: true, Message: "TargetNotEmpty: a file"}}}}}
		}, platformv1.OperationFailed, platformv1.VerificationUnfinished, "TargetNotEmpty: a file"},
		"refused": {func(s *stage) {
			s.says(metav1.Condition{Type: platformv1.AcceptedCondition, Status: metav1.ConditionFalse, Message: "no room"},
				metav1.Condition{Type: platformv1.StalledCondition, Status: metav1.ConditionTrue})
		}, platformv1.OperationFailed, platformv1.VerificationUnfinished, "no room"},
		"late": {func(s *stage) {
			s.facts.Now = epoch.Add(DefaultTimeout)
			s.says(metav1.Condition{Type: platformv1.ReadyCondition, Status: metav1.ConditionFalse, Message: "no node"})
		}, platformv1.OperationFailed, platformv1.VerificationUnfinished, "not done within 10m0s"},
		"cancelled": {func(s *stage) { s.op.Spec.Cancel = true }, platformv1.OperationCancelled, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := drilling(nil)
			s.reconcile(-1)
			s.begun()
			s.reconcile(-1)
			if s.child == nil {
				t.Fatalf("nobody verifies: %+v", s.op.Status)
			}
			tc.found(s)
			s.ends(t, tc.phase, tc.outcome, tc.says)
		})
	}
}

// Whichever effect the controller dies after, one instance is made, the Backup says what came of it, and nothing is
// left.
func TestDrillSurvivesItsController(t *testing.T) {
	for crash := range 12 {
		for _, bad := range []answer{"", yes} {
			t.Run(fmt.Sprint(crash, bad), func(t *testing.T) {
				s := drilling(nil)
				phase, outcome := platformv1.OperationSucceeded, platformv1.VerificationPassed
				for range 30 {
					if s.reconcile(crash); Finished(s.op) {
						break
					}
					if s.instance != nil && s.instance.Status.RestoredFrom == nil {
						s.begun()
					} else if s.child != nil && s.child.Phase == platformv1.OperationPending {
						if s.child.Phase = platformv1.OperationSucceeded; bad == yes {
							s.fails("it is", map[string]string{outputDataBad: string(yes)})
							phase, outcome = platformv1.OperationFailed, platformv1.VerificationFailed
						}
					}
					if crash++; crash > 12 {
						crash = 1
					}
				}
				s.ends(t, phase, outcome, "")
				if s.made != 1 {
					t.Errorf("%d instances were made", s.made)
				}
			})
		}
	}
}

// What does not go, or does not answer, keeps a drill that ended early for a while and no longer.
func TestDrillDoesNotWaitForEver(t *testing.T) {
	s := drilling(nil)
	s.reconcile(-1)
	s.deaf, s.lasting = yes, yes
	s.facts.Now = epoch.Add(DefaultTimeout)
	if s.reconcile(-1); Finished(s.op) {
		t.Fatalf("it has ended as %+v", s.op.Status)
	}
	if v := VerdictOf(s.op); v == nil || v.Verification.Outcome != platformv1.VerificationUnfinished {
		t.Errorf("it has found %+v", v)
	}
	s.facts.Now = s.facts.Now.Add(drillPatience + time.Second)
	if s.reconcile(-1); s.op.Status.Phase != platformv1.OperationFailed {
		t.Errorf("it goes on as %+v", s.op.Status)
	}
}

func TestDrillThatCannotBegin(t *testing.T) {
	s := drilling(nil)
	s.refuse = "there is none"
	s.ends(t, platformv1.OperationFailed, "", "")
	s = drilling(nil)
	s.backup.Spec.Method = "dump"
	s.ends(t, platformv1.OperationFailed, "", "")
	if !strings.Contains(s.op.Status.Error, `how a backup by method "dump"`) || s.made != 0 {
		t.Errorf("it says %q", s.op.Status.Error)
	}
	s = drilling(map[string]platformv1.ParameterValue{"backup": "x"})
	s.op.Spec.DryRun = true
	if d := s.reconcile(-1); len(d.Status.Plan) != 1 || !strings.Contains(d.Status.Plan[0], `restores Backup "x"`) ||
		s.made != 0 {
		t.Errorf("it would do %v", d.Status.Plan)
	}
}

func TestBackupThatIsMeant(t *testing.T) {
	of := func(name string, minutes int, change func(*platformv1.Backup)) platformv1.Backup {
		b := platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{platformv1.ScheduleLabel: "nightly"}},
			Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "redis-a"},
				RepositoryRef: platformv1.RepositoryReference{Name: "store"}},
			Status: platformv1.BackupStatus{Phase: platformv1.BackupCompleted,
				CompletionTime: new(metav1.NewTime(epoch.Add(time.Duration(minutes) * time.Minute)))}}
		if change != nil {
			change(&b)
		}
		return b
	}
	list := []platformv1.Backup{
		of("first", 1, nil), of("second", 2, nil), of("by-hand", 3, func(b *platformv1.Backup) { b.Labels = nil }),
		of("far", 4, func(b *platformv1.Backup) { b.Spec.RepositoryRef.Name = "cloud" }),
		of("failed", 5, func(b *platformv1.Backup) { b.Status.Phase = platformv1.BackupFailed }),
		of("going", 6, func(b *platformv1.Backup) { b.DeletionTimestamp = b.Status.CompletionTime }),
		of("missing", 7, func(b *platformv1.Backup) {
			b.Status.Conditions = []metav1.Condition{
				{Type: platformv1.ReadyCondition, Reason: platformv1.ReasonBackupDataMissing}}
		}),
		of("other", 8, func(b *platformv1.Backup) { b.Spec.ApplicationRef.Name = "redis-b" }),
	}
	for choice, want := range map[BackupChoice]string{
		{}:                    "far",
		{Repository: "store"}: "by-hand",
		{Repository: "store", Schedule: "nightly"}: "second",
		{Name: "first"}:         "first",
		{Name: "failed"}:        "is not complete",
		{Name: "missing"}:       "is not complete",
		{Name: "other"}:         `has no Backup "other"`,
		{Schedule: "weekly"}:    `no Backup of schedule "weekly" that is complete`,
		{Repository: "nowhere"}: `no Backup in BackupRepository "nowhere" that is complete`,
	} {
		chosen, why := choice.Among("redis-a", list)
		if chosen == nil && (why == "" || !strings.Contains(why, want)) || chosen != nil && chosen.Name != want {
			t.Errorf("%+v: %v, %q, want %q", choice, chosen, why, want)
		}
	}
}

// A drill waits for drills alone, and nobody else for it.
func TestDrillRunsApart(t *testing.T) {
	of := func(name, template string, phase platformv1.OperationPhase, minute int) *platformv1.Operation {
		return &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(minute) * time.Minute))},
			Spec:   platformv1.OperationSpec{TemplateRef: template},
			Status: platformv1.OperationStatus{Phase: phase, Application: "redis-a"}}
	}
	first, second := of("first", "VerifyBackup", platformv1.OperationRunning, 0),
		of("second", "VerifyBackup", platformv1.OperationPending, 1)
	backup, stop := of("backup", "Backup", platformv1.OperationRunning, 0),
		of("stop", "Stop", platformv1.OperationPending, 2)
	all := []*platformv1.Operation{first, second, backup, stop}
	q := Queue{Operations: all, Urgent: func(op *platformv1.Operation) bool {
		return Urgent(op, Defaults()[op.Spec.TemplateRef])
	},
		Apart: func(op *platformv1.Operation) bool { return Apart(Defaults()[op.Spec.TemplateRef]) }}
	if got := q.Ahead(second); got != first {
		t.Errorf("the second waits for %v", got)
	}
	if got := q.Ahead(first); got != nil {
		t.Errorf("the first waits for %v", got)
	}
	q.Operations = []*platformv1.Operation{first, stop}
	if got := q.Ahead(stop); got != nil {
		t.Errorf("the stop waits for %v", got)
	}
	if got := q.Preempts(first); got != nil {
		t.Errorf("the first ends for %v", got)
	}
	q.Operations = all
	if got := q.Preempts(backup); got != stop {
		t.Errorf("the backup ends for %v", got)
	}
}
