// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// replicated makes an Application whose writer the engine names, and returns its set once it is there with its pods.
func replicated(t *testing.T, namespace string) (*platformv1.Application, *platformv1.WorkloadSet) {
	t.Helper()
	app := application(namespace)
	app.Spec.Topology = "replication"
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-a-redis-main"}}
	testkit.WaitFor(t, env.Client, set, "three pods", func() error {
		if set.Status.Replicas != 3 {
			return fmt.Errorf("it has %d", set.Status.Replicas)
		}
		return nil
	})
	return app, set
}

// writes has the record of a set say something else, as the engine does.
func writes(t *testing.T, set *platformv1.WorkloadSet, change func(*platformv1.PrimaryRecord)) {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	before := set.DeepCopy()
	if set.Status.Primary == nil {
		set.Status.Primary = &platformv1.PrimaryRecord{}
	}
	change(set.Status.Primary)
	if err := env.Client.Status().Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// failed begins a term since a pod failed.
func failed(term int64, from string) func(*platformv1.PrimaryRecord) {
	return func(r *platformv1.PrimaryRecord) {
		r.Term, r.Member, r.Former = term, nil, &platformv1.SetMember{Name: from, Identity: from}
		r.List = platformv1.MemberList{Version: 1, Members: []platformv1.SetMember{{Name: from, Identity: from}}}
		r.Changes = append(r.Changes, platformv1.PrimaryChange{Term: term, Cause: platformv1.PrimaryFailed, From: from,
			Reason: "it is gone", Deposed: metav1.NowMicro()})
	}
}

// recordsOf are the Operations that tell of failovers.
func recordsOf(t *testing.T, namespace string) []platformv1.Operation {
	t.Helper()
	var list platformv1.OperationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace),
		client.MatchingLabels{platformv1.TriggerLabel: string(platformv1.TriggerFailover)}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// noted waits until a term of a set is on record.
func noted(t *testing.T, set *platformv1.WorkloadSet, term string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, set, "term "+term+" on record", func() error {
		if got := set.Annotations[platformv1.RecordedTermAnnotation]; got != term {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// A failover is on record as an Operation, which keeps nobody waiting, waits for nobody, and ends when a pod takes
// writes.
func TestAFailoverIsOnRecord(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	app, set := replicated(t, namespace)
	restart := operate(t, app, "restart", "Restart", nil)
	ends(t, restart, platformv1.OperationRunning)
	writes(t, set, failed(2, set.Name+"-1"))
	noted(t, set, "2")
	records := recordsOf(t, namespace)
	if len(records) != 1 || !metav1.IsControlledBy(&records[0], app) || records[0].Spec.TargetRef.Name != app.Name ||
		records[0].Labels[platformv1.SetLabel] != set.Spec.Set {
		t.Fatalf("the records are %+v", records)
	}
	record := &records[0]
	testkit.WaitFor(t, env.Client, record, "a record that says what it waits for", func() error {
		if record.Status.Phase != platformv1.OperationRunning || record.Status.Trigger != platformv1.TriggerFailover ||
			record.Status.Application != app.Name {
			return fmt.Errorf("its status is %+v", record.Status)
		}
		return nil
	})
	// It is named, and the pod reports that it takes writes.
	writes(t, set, func(r *platformv1.PrimaryRecord) {
		r.Member = &platformv1.SetMember{Name: set.Name + "-0", Identity: "0"}
		last := &r.Changes[len(r.Changes)-1]
		last.To, last.Named, last.Choice, last.Order = set.Name+"-0", new(metav1.NowMicro()), "it has the most", new(int64(7))
	})
	ends(t, record, platformv1.OperationSucceeded)
	step := record.Status.Steps[len(record.Status.Steps)-1]
	for name, want := range map[string]string{"from": set.Name + "-1", "to": set.Name + "-0", "term": "2",
		"reason": "it is gone", "choice": "it has the most", "order": "7"} {
		if step.Outputs[name] != want {
			t.Errorf("output %s is %q, want %q", name, step.Outputs[name], want)
		}
	}
	if length, err := time.ParseDuration(step.Outputs["seconds"] + "s"); err != nil || length <= 0 {
		t.Errorf("nobody wrote for %q s: %v", step.Outputs["seconds"], err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(restart), restart); err != nil ||
		restart.Status.Phase != platformv1.OperationRunning {
		t.Errorf("the Operation that ran is %s: %v", restart.Status.Phase, err)
	}
	// What was deleted is not made again, also by the next engine; what was ordered is not recorded.
	if err := env.Client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	stop()
	writes(t, set, func(r *platformv1.PrimaryRecord) {
		failed(3, set.Name+"-0")(r)
		r.Changes[len(r.Changes)-1].Cause = platformv1.PrimaryOrdered
		failed(4, set.Name+"-1")(r)
	})
	run(t, -1)
	noted(t, set, "4")
	if records := recordsOf(t, namespace); len(records) != 1 || records[0].Spec.Parameters["term"] != "4" {
		t.Errorf("the records are %+v", records)
	}
}

// The engine dies after each of its writes, and each failover is on record once.
func TestAFailoverIsRecordedOnce(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	_, set := replicated(t, namespace)
	stop()
	for n := 1; n <= 5; n++ {
		term := int64(n + 1)
		writes(t, set, failed(term, set.Name+"-1"))
		_, done, stop := run(t, n)
		select {
		case <-done:
		case <-time.After(5 * time.Second):
		}
		stop()
		_, _, stop = run(t, -1)
		noted(t, set, fmt.Sprint(term))
		stop()
		if records := recordsOf(t, namespace); len(records) != n {
			t.Fatalf("with term %d there are %d records: %+v", term, len(records), records)
		}
	}
}
