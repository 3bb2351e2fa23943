// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// summaryOf sums up what the operators say, sorted by their domain. A column of kubectl shows the first match of its
// path alone, so that it cannot speak of all of them.
func summaryOf(states []platformv1.RepositoryState) *platformv1.RepositorySummary {
	all := &platformv1.RepositorySummary{Ready: metav1.ConditionTrue, Reason: platformv1.ReasonReady}
	domains := make([]string, len(states))
	for i := range states {
		state := &states[i]
		domains[i] = state.Domain
		if last := state.LastBackupTime; last != nil && (all.LastBackupTime == nil || all.LastBackupTime.Before(last)) {
			all.LastBackupTime = last
		}
		if state.Ready == metav1.ConditionTrue || all.Ready != metav1.ConditionTrue {
			continue
		}
		all.Ready, all.Reason, all.Message = state.Ready, state.Reason, state.Message
		if len(states) > 1 {
			all.Message = state.Domain + ": " + state.Message
		}
	}
	all.Domains = strings.Join(domains, ", ")
	return all
}
