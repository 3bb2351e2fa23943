// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// withSets is a change to a number of sets of the component that has data.
func withSets(count int) func(*platformv1.ApplicationSpec) {
	return func(s *platformv1.ApplicationSpec) {
		db := platformv1.ApplicationComponent{Name: "db"}
		for i := range count {
			db.Sets = append(db.Sets, platformv1.ComponentSet{Name: fmt.Sprint(i)})
		}
		s.Components = []platformv1.ApplicationComponent{db}
	}
}

// moverPlan is the plan of a Job that moves.
func moverPlan(t *testing.T, job *batchv1.Job) mover.Plan {
	t.Helper()
	var plan mover.Plan
	if err := json.Unmarshal([]byte(job.Spec.Template.Annotations[platformv1.MoverPlanAnnotation]), &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// inSets plays movers of a backup of two sets.
func inSets(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
	if p.Verb != mover.VerbBackup {
		return mover.Result{}, platformv1.OperationSucceeded
	}
	return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30, Streams: map[string]int64{"0": 10, "1": 20}},
		platformv1.OperationSucceeded
}

// setsBackedUp makes an instance of two sets and a Backup of it, while one engine runs, which it returns how to stop.
func setsBackedUp(t *testing.T) (namespace string, played *jobs, backup *platformv1.Backup, stop func()) {
	t.Helper()
	namespace, played = keeping(t)
	played.moves = inSets
	_, _, stop = run(t, -1)
	app := shop(namespace, "a", "tiers")
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	ends(t, operate(t, app, "nightly", "Backup", nil, "repository", "store"), platformv1.OperationSucceeded)
	return namespace, played, backupIs(t, namespace, "nightly-backup", platformv1.BackupCompleted), stop
}

// beginsInSets makes an instance that begins with a Backup of sets.
func beginsInSets(t *testing.T, namespace, name string, count int) *platformv1.Application {
	t.Helper()
	b := shop(namespace, name, "tiers")
	b.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "nightly-backup"}
	withSets(count)(&b.Spec)
	create(t, b)
	return b
}

// Each set has a part of the data: one mover takes them all, each from a pod of its set, and each set of another
// instance begins with its own.
func TestBackupOfSets(t *testing.T) {
	namespace, played, backup, _ := setsBackedUp(t)
	if s := backup.Status; s.Source != nil || len(s.Sources) != 2 ||
		s.Sources[0] != (platformv1.BackupSource{Pod: "a-db-0-0", Component: "db", Set: "0", Role: "primary", RawSize: 10}) ||
		s.Sources[1].RawSize != 20 {
		t.Errorf("it was taken from %+v, %+v", s.Source, s.Sources)
	}
	taken := played.verbs(t, mover.VerbBackup)
	if len(taken) != 1 {
		t.Fatalf("there were %d movers", len(taken))
	}
	plan := moverPlan(t, taken[0])
	if len(plan.Streams) != 2 || plan.Streams[1].Name != "1" ||
		!slices.Equal(plan.Streams[1].Env, []string{"HOST=a-db-1-0.a-db-headless." + namespace + ".svc.cluster.local"}) ||
		!slices.Equal(plan.Steady, []string{"sh", "-c", "tell which set has what"}) ||
		!slices.Equal(plan.Facts, []string{"tell"}) {
		t.Errorf("the plan is %+v", plan)
	}
	held(t, beginsInSets(t, namespace, "c", 3), platformv1.ReasonRestoreRefused,
		`it has the data of 2 sets, and component "db" is to have 3: ask for 2`)
	stop, open := gate(t)
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbRestore && p.Backup.Stream == "1" {
			stop()
		}
		return inSets(p)
	}
	b := beginsInSets(t, namespace, "b", 2)
	testkit.WaitFor(t, env.Client, b, "one set of two has its data", func() error {
		if len(played.verbs(t, mover.VerbRestore)) < 2 ||
			meta.IsStatusConditionTrue(b.Status.Conditions, platformv1.RestoredCondition) || b.Status.RestoredFrom != nil {
			return fmt.Errorf("it says %+v", b.Status.Conditions)
		}
		return nil
	})
	// What goes would take its part of the data along.
	change(t, b, withSets(1))
	testkit.WaitFor(t, env.Client, b, "another number of sets is refused", func() error {
		accepted := meta.FindStatusCondition(b.Status.Conditions, platformv1.AcceptedCondition)
		if accepted == nil || accepted.Reason != platformv1.ReasonRestoreRefused ||
			!strings.Contains(accepted.Message, "is of the 2 sets 0, 1: keep these") {
			return fmt.Errorf("it says %+v", b.Status.Conditions)
		}
		return nil
	})
	change(t, b, withSets(2))
	open()
	begun(t, b, backup)
	filled(t, namespace, played, "b", backup)

	// A set that comes later begins without, and the others stay as they are.
	change(t, b, withSets(3))
	wait(t, b, &platformv1.WorkloadSetList{}, "b-db-0", "b-db-1", "b-db-2", "b-web-main")
	set, component := &platformv1.WorkloadSet{}, &platformv1.Component{}
	for name, obj := range map[string]client.Object{"b-db-2": set, "b-db": component} {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
			t.Fatal(err)
		}
	}
	if set.Spec.Restore != nil || component.Spec.RestoreFrom != nil {
		t.Errorf("the new set begins with %+v, and the component with %+v", set.Spec.Restore, component.Spec.RestoreFrom)
	}
	if movers := played.verbs(t, mover.VerbRestore); len(movers) != 2 {
		t.Errorf("there were %d movers", len(movers))
	}
	refresh(t, b)
	if !meta.IsStatusConditionTrue(b.Status.Conditions, platformv1.RestoredCondition) || b.Status.RestoredFrom == nil {
		t.Errorf("it says %+v of %+v", b.Status.Conditions, b.Status.RestoredFrom)
	}
}

// filled checks that one mover has put each part of the data on the volume of the first pod of its set.
func filled(t *testing.T, namespace string, played *jobs, name string, backup *platformv1.Backup) {
	t.Helper()
	var parts []string
	for _, job := range played.verbs(t, mover.VerbRestore) {
		plan := moverPlan(t, job)
		part := plan.Backup.Stream
		parts = append(parts, part)
		claim := fmt.Sprintf("data-%s-db-%s-0", name, part)
		if !slices.ContainsFunc(job.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		}) || !slices.Equal(plan.Command, []string{"load", part}) {
			t.Errorf("the mover of part %q is %+v", part, plan)
		}
		volume := &corev1.PersistentVolumeClaim{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: claim}, volume); err != nil ||
			volume.Annotations[platformv1.RestoredAnnotation] != string(backup.UID) {
			t.Errorf("claim %s has %v: %v", claim, volume.Annotations, err)
		}
	}
	if slices.Sort(parts); !slices.Equal(parts, []string{"0", "1"}) {
		t.Errorf("there were movers for the parts %q", parts)
	}
}

// Whatever crashes, one mover brings the data of each set.
func TestRestoreOfSetsSurvivesTheEngine(t *testing.T) {
	namespace, played, backup, stop := setsBackedUp(t)
	stop()
	b := beginsInSets(t, namespace, "b", 2)
	survives(t, b)
	run(t, -1)
	begun(t, b, backup)
	filled(t, namespace, played, "b", backup)
}
