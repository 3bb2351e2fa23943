// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	early := metav1.NewTime(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	late := metav1.NewTime(early.Add(time.Hour))
	ready := func(domain string, last *metav1.Time) platformv1.RepositoryState {
		return platformv1.RepositoryState{Domain: domain, Ready: metav1.ConditionTrue, Reason: platformv1.ReasonReady,
			Message: "it can be written", LastBackupTime: last}
	}
	refused := platformv1.RepositoryState{Domain: "message", Ready: metav1.ConditionFalse, Reason: "CheckFailed",
		Message: "correct the Secret"}
	checking := platformv1.RepositoryState{Domain: "storage", Ready: metav1.ConditionUnknown, Reason: "Checking"}
	for name, test := range map[string]struct {
		states []platformv1.RepositoryState
		want   platformv1.RepositorySummary
	}{
		"all are ready": {
			states: []platformv1.RepositoryState{ready("database", &late), ready("message", nil), ready("storage", &early)},
			want: platformv1.RepositorySummary{Domains: "database, message, storage", Ready: metav1.ConditionTrue,
				Reason: platformv1.ReasonReady, LastBackupTime: &late},
		},
		"the first that is not counts": {
			states: []platformv1.RepositoryState{ready("database", &early), refused, checking},
			want: platformv1.RepositorySummary{Domains: "database, message, storage", Ready: metav1.ConditionFalse,
				Reason: "CheckFailed", Message: "message: correct the Secret", LastBackupTime: &early},
		},
		"of one alone": {
			states: []platformv1.RepositoryState{refused},
			want: platformv1.RepositorySummary{Domains: "message", Ready: metav1.ConditionFalse, Reason: "CheckFailed",
				Message: "correct the Secret"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := summaryOf(test.states); !equality.Semantic.DeepEqual(*got, test.want) {
				t.Errorf("got  %+v\nwant %+v", *got, test.want)
			}
		})
	}
}
