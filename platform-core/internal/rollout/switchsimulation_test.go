// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/internal/rollout"
)

func (s *simulation) memberNamed(name string) *member {
	i := slices.IndexFunc(s.pods, func(m *member) bool { return fmt.Sprintf("a-%d", m.ordinal) == name })
	if i < 0 {
		return nil
	}
	return s.pods[i]
}

// handOver is one call of the action: it succeeds at once, or only says so, or fails; the third failure is the last.
func (s *simulation) handOver(from, to *member) {
	name := fmt.Sprintf("a-%d", from.ordinal)
	if s.handover.From != name || s.handover.State != rollout.HandoverUnderway ||
		s.handover.To != fmt.Sprintf("a-%d", to.ordinal) {
		s.switches++
	}
	s.handover = rollout.Handover{From: name, To: fmt.Sprintf("a-%d", to.ordinal), State: rollout.HandoverUnderway}
	if s.deaf && s.random.IntN(3) > 0 {
		if s.random.IntN(3) == 0 {
			s.handover.State, s.handover.Problem = rollout.HandoverFailed, "it does not listen"
		}
		return
	}
	from.claims = false
	// The other one may need a moment, in which nobody writes.
	to.claims = s.random.IntN(2) == 0
}

// followHandover forgets an attempt whose aim is reached, or whose pod is another one.
func (s *simulation) followHandover() {
	from := s.memberNamed(s.handover.From)
	if from == nil || from.life != rollout.Alive || !from.claims &&
		slices.ContainsFunc(s.pods, func(m *member) bool { return m.claims && s.serves(m) }) {
		s.handover = rollout.Handover{}
	}
}

// candidateWaits are those that could take over from a pod.
func (s *simulation) candidateWaits(from *member) []*member {
	return slices.DeleteFunc(slices.Clone(s.pods), func(m *member) bool {
		return m == from || !s.serves(m) || !m.known || m.claims || !s.wanted(m) || m.runs != m.image
	})
}

func (s *simulation) checkSwitchover(step rollout.Step) {
	from, to := s.member(step.Ordinal), s.memberNamed(step.To)
	if s.switchover == rollout.NoSwitchover || s.spec.mode != rollout.Running || !from.claims ||
		!slices.Contains(s.candidateWaits(from), to) {
		s.failed("%s: that makes no sense", step)
	}
}

// checkSpared holds that a primary that works is not taken out as long as another pod could take over.
func (s *simulation) checkSpared(step rollout.Step, m *member) {
	if s.switchover != rollout.NoSwitchover && disrupts(step.Action) && m.claims && m.known && m.runs == m.image &&
		len(s.candidateWaits(m)) > 0 {
		s.failed("%s although pod %d could take over", step, s.candidateWaits(m)[0].ordinal)
	}
}

// When nothing fails, one change takes one switchover at most, whatever it is, and there is none where no primary is
// taken out.
func TestOneSwitchoverForAChange(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		s := &simulation{T: t, random: random, bad: map[string]bool{}, switchover: rollout.BySwitchover, refuses: seed%2 == 0,
			spec: spec{replicas: 3, revision: "r1", image: "i1", resources: "m1", digest: "d1", restart: "s1"}}
		s.note("seed %d", seed)
		s.settle(3)
		for range 5 {
			before := s.spec
			s.switches = 0
			s.edit()
			s.spec.window = rollout.Open
			if s.spec.mode != rollout.Running || s.spec.replicas == 0 {
				s.spec = before
				continue
			}
			s.settle(int(s.spec.replicas))
			if s.switches > 1 {
				s.failed("%d switchovers", s.switches)
			}
			if s.spec.resources != before.resources && !s.refuses && s.switches > 0 {
				s.failed("a switchover for what no pod is taken out for")
			}
		}
	}
}
