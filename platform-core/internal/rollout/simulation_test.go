// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// spec is what a simulated set should be.
type spec struct {
	mode                       rollout.Mode
	window                     rollout.Window
	policy                     platformv1.PodManagementPolicy
	replicas                   int32
	excluded                   []int32
	revision, image, resources string
	digest, restart            string
}

// member is a simulated pod. The numbers count rounds down.
type member struct {
	uid             int
	ordinal         int32
	life            rollout.Life
	role            string
	revision        string
	image, runs     string
	resources, gets string
	digest, restart string
	// known is the configuration that the report tells of: none before the first report.
	known bool
	// starts, goes, restarts, resizes: rounds until the pod is up, gone, restarted with its image, resized.
	starts, goes, restarts, resizes int
	// claims that it writes, rightly or not.
	claims bool
	// ours says that we took it out and it is not yet back.
	ours bool
}

// simulation is a set whose pods start slowly, crash, are evicted and change places, and whose
// cache lags behind.
type simulation struct {
	*testing.T
	random *rand.Rand
	spec   spec
	pods   []*member
	uids   int
	// bad templates, images and configurations never become ready.
	bad map[string]bool
	// refuses says that nodes give no pod other resources in place.
	refuses bool
	// switchover says whether the middleware can hand over; handover is the latest attempt, and switches counts those that
	// were begun.
	switchover rollout.Switchover
	handover   rollout.Handover
	switches   int
	// deaf says that attempts may fail.
	deaf bool
	// cached is an earlier look at the pods.
	cached []rollout.Pod
	uidsOf map[int32]int
	log    []string
}

func (s *simulation) failed(format string, args ...any) {
	s.Helper()
	for _, line := range s.log[max(0, len(s.log)-40):] {
		s.Log(line)
	}
	s.Fatalf(format, args...)
}

func (s *simulation) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *simulation) sound(m *member) bool {
	return !s.bad[m.revision] && !s.bad[m.runs] && !s.bad[m.digest]
}

func (s *simulation) serves(m *member) bool {
	return m.life == rollout.Alive && m.starts == 0 && s.sound(m)
}

func (s *simulation) wanted(m *member) bool {
	return slices.Contains(platformv1.OrdinalsOf(s.spec.replicas, s.spec.excluded), m.ordinal)
}

// current says whether a pod is what the spec asks for, whatever the planner makes of it.
func (s *simulation) current(m *member) bool {
	return m.revision == s.spec.revision && m.runs == s.spec.image && m.gets == s.spec.resources &&
		m.digest == s.spec.digest
}

func (s *simulation) look() []rollout.Pod {
	pods := make([]rollout.Pod, 0, len(s.pods))
	s.uidsOf = map[int32]int{}
	for _, m := range s.pods {
		s.uidsOf[m.ordinal] = m.uid
		p := rollout.Pod{Name: fmt.Sprintf("a-%d", m.ordinal), Ordinal: m.ordinal, Life: m.life, Revision: m.revision,
			Ready: rollout.NotReady, Role: m.role,
			Candidacy: rollout.CanTakeOver}
		if s.serves(m) {
			p.Ready = rollout.Ready
		}
		if m.known {
			p.Report = report.Report{Health: report.Unhealthy, Role: "replica", ConfigDigest: m.digest, RestartDigest: m.restart}
			if m.claims {
				p.Report.Role = "primary"
			}
			if p.Ready == rollout.Ready {
				p.Report.Health = report.Healthy
			}
		}
		if m.image != s.spec.image {
			p.Images = rollout.Outdated
		}
		if m.runs != m.image {
			p.Restart = rollout.Underway
		}
		switch {
		case m.resources != s.spec.resources && s.refuses:
			p.Resources = rollout.Replace
		case m.resources != s.spec.resources:
			p.Resources = rollout.Outdated
		case m.gets != m.resources && s.refuses:
			p.Resources = rollout.Replace
		case m.gets != m.resources:
			p.Resources = rollout.Underway
		}
		pods = append(pods, p)
	}
	return pods
}

func (s *simulation) facts(pods []rollout.Pod) rollout.Facts {
	return rollout.Facts{
		Name: "a", Mode: s.spec.mode, Window: s.spec.window, Replicas: s.spec.replicas, Excluded: s.spec.excluded,
		Policy:    s.spec.policy,
		Authority: rollout.AuthorityEngine, Revision: s.spec.revision, ConfigDigest: s.spec.digest,
		RestartDigest: s.spec.restart,
		Roles:         roles, Switchover: s.switchover, Handover: s.handover, Pods: pods,
	}
}

// round is one reconcile: on what a cache shows, and where that is not good enough on the pods as they are.
func (s *simulation) round() []rollout.Step {
	fresh := s.look()
	pods := fresh
	if s.cached != nil && s.random.IntN(3) == 0 {
		pods = s.cached
	}
	f := s.facts(pods)
	steps := rollout.Plan(f)
	if rollout.Careful(f, steps) {
		f = s.facts(fresh)
		steps = rollout.Plan(f)
	}
	s.cached = fresh
	for _, step := range steps {
		s.note("%s", step)
		s.check(step)
		s.take(step)
		s.checkLabels()
	}
	return steps
}

func (s *simulation) member(ordinal int32) *member {
	i := slices.IndexFunc(s.pods, func(m *member) bool { return m.ordinal == ordinal })
	if i < 0 {
		return nil
	}
	return s.pods[i]
}

func (s *simulation) take(step rollout.Step) {
	m := s.member(step.Ordinal)
	if step.Action == rollout.CreatePod {
		if m == nil {
			s.uids++
			s.pods = append(s.pods, &member{uid: s.uids, ordinal: step.Ordinal, life: rollout.Alive, revision: s.spec.revision,
				image: s.spec.image, runs: s.spec.image, resources: s.spec.resources, gets: s.spec.resources,
				starts: 1 + s.random.IntN(4)})
		}
		return
	}
	if m == nil || step.Action == rollout.Hold {
		return // the cache was behind, or there is nothing to do
	}
	if step.Action == rollout.SwitchOver {
		s.handOver(m, s.memberNamed(step.To))
		return
	}
	if m.life == rollout.Alive && s.serves(m) && s.wanted(m) && disrupts(step.Action) && s.spec.mode == rollout.Running {
		m.ours = true
	}
	switch step.Action {
	case rollout.DeletePod:
		m.life, m.goes = rollout.Terminating, 1+s.random.IntN(3)
	case rollout.SetRole:
		m.role = step.Role
	case rollout.UpdateImage:
		m.image, m.restarts = s.spec.image, 1+s.random.IntN(3)
	case rollout.ResizePod:
		m.resources, m.resizes = s.spec.resources, s.random.IntN(3)
	case rollout.PushPlan:
		m.digest, m.restart, m.starts = s.spec.digest, s.spec.restart, 1+s.random.IntN(3)
	case rollout.ReloadPlan:
		if m.restart != s.spec.restart {
			s.failed("%s takes over what only a restart can", step)
		}
		m.digest = s.spec.digest
	}
}

// disrupts says whether an action takes a pod out of service for a while.
func disrupts(a rollout.Action) bool {
	return a == rollout.DeletePod || a == rollout.UpdateImage || a == rollout.PushPlan
}

// check holds a step against the promises.
func (s *simulation) check(step rollout.Step) {
	m := s.member(step.Ordinal)
	switch {
	case s.spec.mode == rollout.Suspended:
		s.failed("%s although the set is suspended", step)
	case step.Action == rollout.CreatePod:
		s.checkOrder(step)
		return
	case step.Action == rollout.SwitchOver:
		s.checkSwitchover(step)
		return
	case step.Action == rollout.SetRole || step.Action == rollout.Hold || m == nil || !s.serves(m):
		return
	case s.spec.mode == rollout.Stopped:
		others := slices.ContainsFunc(s.pods, func(o *member) bool { return o.role != "primary" && !o.claims })
		if m.role == "primary" && others {
			s.failed("%s although others are still there", step)
		}
		return
	}
	halfway := m.runs != m.image
	if s.spec.window == rollout.Closed {
		if disrupts(step.Action) && s.wanted(m) && !halfway {
			s.failed("%s outside of the maintenance windows", step)
		}
		return
	}
	serving := 0
	for _, o := range s.pods {
		if s.wanted(o) && s.serves(o) {
			serving++
		}
	}
	if int32(serving) < s.spec.replicas && !halfway {
		s.failed("%s although only %d of %d serve", step, serving, s.spec.replicas)
	}
	s.checkSpared(step, m)
	if m.role != "primary" || !s.wanted(m) || halfway {
		return
	}
	for _, o := range s.pods {
		if o != m && s.wanted(o) && o.role != "primary" && !o.claims && !s.current(o) {
			s.failed("%s although pod %d takes no writes and is not up to date", step, o.ordinal)
		}
	}
}

func (s *simulation) checkOrder(step rollout.Step) {
	if s.spec.policy != platformv1.PodManagementOrderedReady {
		return
	}
	for _, ordinal := range platformv1.OrdinalsOf(s.spec.replicas, s.spec.excluded) {
		if m := s.member(ordinal); ordinal < step.Ordinal && (m == nil || !s.serves(m)) {
			s.failed("%s before pod %d serves", step, ordinal)
		}
	}
}

func (s *simulation) checkLabels() {
	primaries := 0
	for _, m := range s.pods {
		if m.role == "primary" {
			primaries++
		}
	}
	if primaries > 1 {
		s.failed("%d pods have the primary label", primaries)
	}
	if ours := len(slices.DeleteFunc(slices.Clone(s.pods),
		func(m *member) bool { return !m.ours || !s.wanted(m) })); ours > 1 {
		s.failed("%d pods are out by our doing", ours)
	}
}

// pass lets time go by for all pods.
func (s *simulation) pass() {
	down := func(n *int) bool {
		if *n > 0 {
			*n--
			return *n == 0
		}
		return false
	}
	gone := map[*member]bool{}
	for _, m := range s.pods {
		if down(&m.goes) {
			gone[m] = true
		}
		if down(&m.restarts) && m.life == rollout.Alive {
			m.runs, m.starts, m.claims = m.image, 1+s.random.IntN(3), false
		}
		if down(&m.starts) && m.life == rollout.Alive {
			if !m.known {
				m.digest, m.restart, m.known = s.spec.digest, s.spec.restart, true
			}
		}
		if m.resizes == 0 && m.gets != m.resources && !s.refuses {
			m.gets = m.resources
		}
		down(&m.resizes)
		if s.serves(m) && m.runs == m.image {
			m.ours = false
		}
	}
	s.pods = slices.DeleteFunc(s.pods, func(m *member) bool { return gone[m] })
	s.elect()
	s.followHandover()
}

// elect has the middleware choose a primary when there is none that works. The old one may
// still believe that it is one.
func (s *simulation) elect() {
	working := slices.DeleteFunc(slices.Clone(s.pods), func(m *member) bool { return !s.serves(m) || !m.known })
	claimants := slices.DeleteFunc(slices.Clone(working), func(m *member) bool { return !m.claims })
	switch {
	case len(working) == 0:
	case len(claimants) == 0:
		working[s.random.IntN(len(working))].claims = true
	case len(claimants) > 1:
		claimants[0].claims = false
	}
}

// strike has something happen to the pods.
func (s *simulation) strike() {
	if len(s.pods) == 0 {
		return
	}
	m := s.pods[s.random.IntN(len(s.pods))]
	if m.life != rollout.Alive {
		return
	}
	switch s.random.IntN(4) {
	case 0:
		s.note("pod %d crashes", m.ordinal)
		m.starts, m.ours = 1+s.random.IntN(5), false
	case 1:
		s.note("pod %d is evicted", m.ordinal)
		m.life, m.ours = rollout.Ended, false
	case 2:
		s.note("another pod believes that it writes")
		m.claims = m.known
	case 3:
		s.note("the nodes change their minds")
		s.refuses = !s.refuses
	}
}

// edit has someone change the spec.
func (s *simulation) edit() {
	pick := func(kind string) string {
		value := fmt.Sprintf("%s%d", kind, s.random.IntN(6))
		return value
	}
	switch s.random.IntN(10) {
	case 0:
		s.spec.revision = pick("r")
	case 1:
		s.spec.image = pick("i")
	case 2:
		s.spec.resources = pick("m")
	case 3:
		s.spec.digest = pick("d")
	case 4:
		s.spec.digest, s.spec.restart = pick("d"), pick("s")
	case 5:
		s.spec.replicas = int32(s.random.IntN(6))
	case 6:
		s.spec.excluded = nil
		for range s.random.IntN(3) {
			if o := int32(s.random.IntN(5)); !slices.Contains(s.spec.excluded, o) {
				s.spec.excluded = append(s.spec.excluded, o)
			}
		}
	case 7:
		s.spec.mode = []rollout.Mode{rollout.Running, rollout.Running, rollout.Running, rollout.Stopped,
			rollout.Suspended}[s.random.IntN(5)]
	case 8:
		s.spec.policy = []platformv1.PodManagementPolicy{platformv1.PodManagementParallel,
			platformv1.PodManagementOrderedReady}[s.random.IntN(2)]
	case 9:
		s.spec.window = []rollout.Window{rollout.Open, rollout.Closed}[s.random.IntN(2)]
	}
	s.note("the spec becomes %+v", s.spec)
	if s.handover.State == rollout.HandoverFailed {
		s.handover = rollout.Handover{}
	}
}

func (s *simulation) settle(want int) {
	for range 400 {
		if len(s.round()) == 0 && s.settled(want) {
			return
		}
		s.pass()
	}
	s.failed("the set does not settle: %+v", s.look())
}

func (s *simulation) settled(want int) bool {
	f := s.facts(s.look())
	for _, p := range f.Pods {
		if f.Settled(p) != rollout.Ready {
			return false
		}
	}
	for _, m := range s.pods {
		if !s.current(m) || !s.wanted(m) {
			return false
		}
	}
	return len(s.pods) == want
}

// Whatever happens to the pods and the spec: we never have more than one wanted pod out by our own doing, the
// primary is changed last, no two pods have a primary label, a suspended set is left alone, nothing that serves is
// taken out outside of the maintenance windows, and the set settles when nothing more happens.
func TestRandomHistories(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &simulation{T: t, random: random, bad: map[string]bool{"r4": true, "i4": true, "d4": true},
			spec: spec{replicas: 3, revision: "r1", image: "i1", resources: "m1", digest: "d1", restart: "s1"}}
		if seed%2 == 1 {
			s.switchover, s.deaf = rollout.BySwitchover, true
		}
		s.note("seed %d", seed)
		s.settle(3)
		for range 80 {
			if random.IntN(4) == 0 {
				s.edit()
			}
			if random.IntN(5) == 0 {
				s.strike()
			}
			s.round()
			s.pass()
		}
		s.spec.mode, s.spec.window, s.refuses, s.deaf, s.handover = rollout.Running, rollout.Open, false, false,
			rollout.Handover{}
		s.spec.revision, s.spec.image, s.spec.digest = "r7", "i7", "d7"
		s.note("the spec is mended")
		s.settle(int(s.spec.replicas))
		s.spec.mode = rollout.Stopped
		s.note("the set is stopped")
		s.settle(0)
	}
}
