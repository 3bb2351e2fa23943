// SPDX-License-Identifier: Apache-2.0

package failoverrecord

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// due are the terms of a set that have yet to be put on record.
func due(set *platformv1.WorkloadSet) []int64 {
	if set.Status.Primary == nil {
		return nil
	}
	recorded, _ := strconv.ParseInt(set.Annotations[platformv1.RecordedTermAnnotation], 10, 64)
	var terms []int64
	for _, change := range set.Status.Primary.Changes {
		// An order is on record where it was given.
		if change.Term > recorded && change.Cause != platformv1.PrimaryOrdered && change.Operation == "" {
			terms = append(terms, change.Term)
		}
	}
	return terms
}

// nameFor is the name of the record of a term. A set that is made anew under its name begins its terms anew.
func nameFor(set *platformv1.WorkloadSet, term int64) string {
	uid := string(set.UID)
	number := strconv.FormatInt(term, 10)
	return platformv1.DerivedName(platformv1.MaxObjectName, set.Name, "failover", number, uid[:min(5, len(uid))])
}

// operation is the record of a term, complete but for its owner.
func operation(app *platformv1.Application, set *platformv1.WorkloadSet, term int64) *platformv1.Operation {
	_, target := opsflow.DeclaredBy(app)
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: nameFor(set, term),
			Labels: map[string]string{
				platformv1.DomainLabel:      set.Labels[platformv1.DomainLabel],
				platformv1.ApplicationLabel: set.Spec.Application,
				platformv1.ComponentLabel:   set.Spec.Component,
				platformv1.SetLabel:         set.Spec.Set,
				platformv1.TriggerLabel:     string(platformv1.TriggerFailover),
				platformv1.ManagedByLabel:   platformv1.ManagedBy,
			},
		},
		Spec: platformv1.OperationSpec{
			TemplateRef: opsflow.TemplateFailover,
			TargetRef:   target,
			Parameters: map[string]platformv1.ParameterValue{
				opsflow.ParameterTerm: platformv1.ParameterValue(strconv.FormatInt(term, 10))},
		},
	}
}
