// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/testagents"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// crew is a set whose writer the engine names, with pods that nobody can call: what they say is in their reports.
func crew(t *testing.T) (*platformv1.Application, *platformv1.WorkloadSet) {
	t.Helper()
	namespace := env.Namespace(t)
	run(t, -1)
	nodeAt(t, namespace, testagents.Address())
	return crewIn(t, namespace)
}

// crewIn is crew in a namespace that has a node, under an engine that runs.
func crewIn(t *testing.T, namespace string) (*platformv1.Application, *platformv1.WorkloadSet) {
	t.Helper()
	app, set := replicated(t, namespace)
	writes(t, set, func(r *platformv1.PrimaryRecord) {
		r.Term, r.Member = 1, memberAt(set, 0)
		r.Former, r.List = r.Member, platformv1.MemberList{Version: 1, Members: []platformv1.SetMember{*r.Member}}
	})
	writing(t, set, 0, 1)
	return app, set
}

// memberAt is a pod of a set as its record names it.
func memberAt(set *platformv1.WorkloadSet, ordinal int32) *platformv1.SetMember {
	return &platformv1.SetMember{Name: platformv1.PodNameFor(set.Name, ordinal), Identity: fmt.Sprintf("%032x", ordinal+1)}
}

// writing has a pod report that it writes in a term, and all others that they do not, and waits until it has the label
// of its role.
func writing(t *testing.T, set *platformv1.WorkloadSet, writer int32, term int64) {
	t.Helper()
	reportWriting(t, set, writer, term)
	labelled(t, set.Namespace, memberAt(set, writer).Name)
}

// reportWriting has a pod report that it writes in a term, and all others that they do not.
func reportWriting(t *testing.T, set *platformv1.WorkloadSet, writer int32, term int64) {
	t.Helper()
	for ordinal := range int32(3) {
		self, named := memberAt(set, ordinal), memberAt(set, writer)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: self.Name}}
		testkit.WaitFor(t, env.Client, pod, "a report", func() error {
			if pod.Annotations[platformv1.ReportAnnotation] == "" || pod.Status.PodIP == "" {
				return fmt.Errorf("it has none")
			}
			return nil
		})
		if err := testkit.Edit(t.Context(), env.Client, pod, func() {
			said := report.Latest(pod.Annotations[platformv1.ReportAnnotation])
			said.Role = set.Spec.Roles[1].Name
			said.Member = &report.Member{Identity: self.Identity, Promised: term, Primary: named.Name}
			if ordinal == writer {
				said.Role, said.Member.Term, said.Member.ListVersion, said.Member.Writing = set.Spec.Roles[0].Name, term, 1, true
			}
			pod.Annotations[platformv1.ReportAnnotation] = said.String()
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// handsOver waits until a set is asked for another writer, or for nothing when from is empty.
func handsOver(t *testing.T, set *platformv1.WorkloadSet, from string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, set, "asked: "+from, func() error {
		if got := platformv1.ParseHandoverRequest(set.Annotations[platformv1.SwitchPrimaryAnnotation]).From; got != from {
			return fmt.Errorf("it is asked for another than %q", got)
		}
		return nil
	})
}

// A Switchover of a set whose writer the engine names asks the set, and has succeeded when the record and the label
// name another pod.
func TestASwitchoverOfAWriterThatTheEngineNames(t *testing.T) {
	app, set := crew(t)
	first := memberAt(set, 0).Name
	op := operate(t, app, "switch", "Switchover", nil, "to", memberAt(set, 1).Name)
	handsOver(t, set, first)
	succeeds(t, set, op, platformv1.PrimaryOrdered)
	writing(t, set, 1, 2)
	done := ends(t, op, platformv1.OperationSucceeded)
	if from, to := done.Steps[0].Outputs["from"], done.Steps[0].Outputs["to"]; from != first ||
		to != memberAt(set, 1).Name {
		t.Errorf("it says from %q to %q", from, to)
	}
	handsOver(t, set, "")
}

// succeeds names the second pod of a set after the first one for an Operation, as the engine does.
func succeeds(t *testing.T, set *platformv1.WorkloadSet, op *platformv1.Operation,
	cause platformv1.PrimaryChangeCause) {
	t.Helper()
	first := memberAt(set, 0).Name
	writes(t, set, func(r *platformv1.PrimaryRecord) {
		r.Term, r.Member = 2, memberAt(set, 1)
		r.Former, r.List.Members = r.Member, []platformv1.SetMember{*memberAt(set, 0), *memberAt(set, 1)}
		r.Changes = append(r.Changes, platformv1.PrimaryChange{Term: 2, Cause: cause, From: first, To: r.Member.Name,
			Operation: op.Name,
			Reason:    "it was told to hand over", Deposed: metav1.NowMicro(), Named: new(metav1.NowMicro())})
	})
}

// One that the set declines says why, fails before its time is over, and leaves no request behind that a pod which
// comes later would be led to.
func TestASwitchoverThatNobodyCanTakeFails(t *testing.T) {
	app, set := crew(t)
	op := operate(t, app, "switch", "Switchover", nil)
	handsOver(t, set, memberAt(set, 0).Name)
	failed := ends(t, op, platformv1.OperationFailed)
	if !strings.Contains(failed.Error, "no other can take over") ||
		!strings.Contains(failed.Error, memberAt(set, 1).Name) {
		t.Errorf("it says %q", failed.Error)
	}
	handsOver(t, set, "")
	if set.Status.Primary.Member.Name != memberAt(set, 0).Name {
		t.Errorf("the record is %+v", set.Status.Primary)
	}
}
