// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Query runs an Operation on the Application until it has succeeded, and returns it.
func (r *Replicated) Query(template string, parameters platformv1.Parameters) *platformv1.Operation {
	r.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace.Name,
		Name: strings.ToLower(template) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)},
		Spec: platformv1.OperationSpec{TemplateRef: template, TargetRef: CoreReference("Application", r.Name),
			Parameters: parameters}}
	if err := Cluster.Client.Create(r.Ctx, op); err != nil {
		r.Fatal(err)
	}
	op = r.WaitForOperationEnd(op.Name, ReadyTimeout)
	if op.Status.Phase != platformv1.OperationSucceeded {
		r.Fatalf("Operation %q failed: %s", op.Name, op.Status.Error)
	}
	r.Logf("%s took %s: %v", template, op.Status.CompletionTime.Sub(op.Status.StartTime.Time),
		op.Status.Steps[len(op.Status.Steps)-1].Outputs)
	return op
}

// RecordedTerms checks that each failover between two terms that nobody asked for is on record as one Operation, which
// has succeeded and tells what it was. It returns how many there were.
func (r *Replicated) RecordedTerms(before, after int64) int {
	r.Helper()
	wanted := map[string]platformv1.PrimaryChange{}
	set := r.WorkloadSet()
	for _, change := range set.Status.Primary.Changes {
		if change.Term > before && change.Term <= after && change.Cause != platformv1.PrimaryOrdered &&
			change.Operation == "" {
			wanted[strconv.FormatInt(change.Term, 10)] = change
		}
	}
	r.Eventually(EndpointTimeout, "each failover is on record", func() error {
		var list platformv1.OperationList
		if err := Cluster.Client.List(r.Ctx, &list, client.InNamespace(r.Namespace.Name), client.MatchingLabels{
			platformv1.ApplicationLabel: r.Name, platformv1.TriggerLabel: string(platformv1.TriggerFailover)}); err != nil {
			return err
		}
		records := map[string]*platformv1.Operation{}
		for i := range list.Items {
			op := &list.Items[i]
			text := string(op.Spec.Parameters["term"])
			if term, err := strconv.ParseInt(text, 10, 64); err != nil || term <= before || term > after {
				continue
			}
			if records[text] != nil {
				r.Fatalf("term %s is on record twice: %s and %s", text, records[text].Name, op.Name)
			}
			records[text] = op
		}
		if len(records) != len(wanted) {
			return fmt.Errorf("there are %d records of %d failovers from term %d to %d: %+v", len(records), len(wanted), before,
				after, set.Status.Primary.Changes)
		}
		for term, change := range wanted {
			op := records[term]
			if op == nil || op.Status.Phase != platformv1.OperationSucceeded && change.Named != nil {
				return fmt.Errorf("the record of term %s is %+v", term, op)
			}
			outputs := op.Status.Steps[len(op.Status.Steps)-1].Outputs
			if outputs["from"] != change.From || outputs["to"] != change.To || outputs["reason"] == "" ||
				term == strconv.FormatInt(after, 10) && outputs["seconds"] == "" {
				return fmt.Errorf("the record of term %s says %v, and it was %+v", term, outputs, change)
			}
		}
		return nil
	})
	for term, change := range wanted {
		if change.Named == nil {
			continue // another term came before anybody was
		}
		r.Logf("on record: term %s, %s to %s in %s, since %s; %s", term, change.From, change.To,
			change.Named.Sub(change.Deposed.Time), change.Reason, change.Choice)
	}
	return len(wanted)
}

// Follower is a pod that does not write.
func (r *Replicated) Follower() string {
	r.Helper()
	primary := r.Object().Status.Primary
	for _, pod := range r.Pods() {
		if pod.Name != primary {
			return pod.Name
		}
	}
	r.Fatal("there is none")
	return ""
}
