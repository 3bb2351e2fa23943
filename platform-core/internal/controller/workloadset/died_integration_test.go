// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A writer whose process died is not waited for: of those that went on the most advanced is next, and where none did, itself.
func TestAWriterThatDiedIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	h.start(-1)
	set := h.create(3, withFailover, func(s *platformv1.WorkloadSet) {
		s.Spec.Failover.After, s.Spec.Failover.SilenceAttribute = &metav1.Duration{Duration: 10 * time.Minute}, "silence"
	})
	h.writes(m, set, "0", 1)
	h.must(m.change(setName+"-1", func(s *simulatedMember) { s.offset, s.silence = 5, "1" }))
	h.must(m.change(setName+"-2", func(s *simulatedMember) { s.offset, s.silence = 9, "1" }))
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.writes, s.forfeited = false, 1 }))
	h.writes(m, set, "2", 2)
	if changes := set.Status.Writer.Changes; len(changes) != 1 || changes[0].Cause != platformv1.WriterFailed || !strings.Contains(changes[0].Reason, "died, and may have left less") {
		t.Errorf("the changes are %+v", changes)
	}
	for _, pod := range []string{"-0", "-1"} {
		h.must(m.change(setName+pod, func(s *simulatedMember) { s.offset, s.silence, s.forfeited = 1<<40, "", 0 }))
	}
	h.must(m.change(setName+"-2", func(s *simulatedMember) { s.writes, s.forfeited = false, 2 }))
	h.writes(m, set, "2", 3)
	if changes := set.Status.Writer.Changes; len(changes) != 2 || changes[1].To != setName+"-2" || !strings.Contains(changes[1].Choice, "no other member went on") {
		t.Errorf("the changes are %+v", changes)
	}
}
