// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// view is what a member takes for the outcome of the latest election.
type view struct{ epoch, leader int }

// stored is what the API server has of the set: how many pods are wanted, which there are, what they last reported,
// their labels, and the recorded election with its version. What is of a pod is by its ordinal.
type stored struct {
	replicas int
	lives    []rollout.Life
	reports  []view
	// copying says which of the reports are of members that copy data: they vote, and are not healthy.
	copying []bool
	labels  []string
	record  *platformv1.ElectionRecord
	version int
}

func (s stored) copied() stored {
	s.lives, s.reports = slices.Clone(s.lives), slices.Clone(s.reports)
	s.copying, s.labels = slices.Clone(s.copying), slices.Clone(s.labels)
	return s
}

// electorate is a set whose members elect, are cut off from each other and report late or never, and an engine that
// dies between any two writes.
type electorate struct {
	*testing.T
	random *rand.Rand
	views  []view
	// copying are members that copy what they lack.
	copying []bool
	server  stored
	// cache is what the engine sees of it: of pods and of the record at different times.
	cache stored
	// earlier is what members took for true some time ago.
	earlier []view
	log     []string
}

func newElectorate(t *testing.T, seed uint64) *electorate {
	e := &electorate{T: t, random: rand.New(rand.NewPCG(seed, 7))}
	e.views, e.copying = make([]view, mostMembers), make([]bool, mostMembers)
	e.server = stored{replicas: []int{1, 3, 5}[e.random.IntN(3)], lives: make([]rollout.Life, mostMembers),
		reports: make([]view, mostMembers), copying: make([]bool, mostMembers), labels: make([]string, mostMembers)}
	for i := range e.server.replicas {
		e.server.lives[i] = rollout.Alive
	}
	e.cache = e.server.copied()
	return e
}

func (e *electorate) failed(format string, args ...any) {
	e.Helper()
	for _, line := range e.log[max(0, len(e.log)-40):] {
		e.Log(line)
	}
	e.Fatalf(format, args...)
}

func (e *electorate) note(format string, args ...any) {
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

// elect has a majority choose among itself, in an epoch above all that its members know. Each of it learns the outcome
// now or never, the leader now.
func (e *electorate) elect() {
	order := e.members()
	e.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	voters := order[:len(order)/2+1]
	leader, epoch := voters[0], 0
	for _, v := range voters {
		epoch = max(epoch, e.views[v].epoch)
	}
	for _, v := range voters {
		e.views[v] = view{epoch + 1, -1} // They have voted, and do not know the outcome.
		if v == leader || e.random.IntN(3) > 0 {
			e.views[v].leader = leader
		}
	}
	e.note("members %v elect %d in %d", voters, leader, epoch+1)
}

// restore begins the history of all members anew. No report of before is left, since the pods are others.
func (e *electorate) restore() {
	first := e.members()[0]
	for i := range e.views {
		e.views[i], e.server.reports[i] = view{}, view{}
	}
	for _, i := range e.members() {
		e.views[i] = view{1, first}
	}
	e.cache.reports = slices.Clone(e.server.reports)
	e.note("all data is restored")
}

// revert has some members, and not all, report again what they did some time ago, as from copies of their volumes.
func (e *electorate) revert() {
	all := e.members()
	for _, i := range all[:len(all)-1] {
		e.views[i], e.server.reports[i] = e.earlier[i], e.earlier[i]
	}
	e.note("members but the last go back to %v", e.earlier)
}

// deliver brings the reports of some members to the API server.
func (e *electorate) deliver() {
	for _, i := range e.members() {
		if e.random.IntN(3) == 0 {
			e.server.reports[i], e.server.copying[i] = e.views[i], e.copying[i]
		}
	}
}

// copy has a member begin or end to copy what it lacks.
func (e *electorate) copy() {
	i := e.random.IntN(len(e.copying))
	e.copying[i] = !e.copying[i]
	e.note("member %d copies: %t", i, e.copying[i])
}

// refresh brings the cache up to date: pods by themselves, and the set with its record.
func (e *electorate) refresh() {
	if e.random.IntN(2) == 0 {
		read := e.server.copied()
		read.replicas, read.record, read.version = e.cache.replicas, e.cache.record, e.cache.version
		e.cache = read
	}
	if e.random.IntN(2) == 0 {
		e.cache.replicas, e.cache.record, e.cache.version = e.server.replicas, e.server.record, e.server.version
	}
}

func (e *electorate) facts(s stored) (rollout.Facts, rollout.Election) {
	f := rollout.Facts{Name: "a", Replicas: int32(s.replicas), Revision: "r1", ConfigDigest: "d1", Roles: roles,
		Authority: rollout.AuthorityMiddleware}
	for i, v := range s.reports {
		if s.lives[i] == "" {
			continue
		}
		p := rollout.Pod{Name: fmt.Sprintf("a-%d", i), Ordinal: int32(i), Life: s.lives[i], Ready: rollout.Ready,
			Role: s.labels[i], Revision: "r1"}
		p.Report = report.Report{Health: report.Healthy, Role: "replica", ConfigDigest: "d1",
			Attributes: map[string]string{"id": "m" + strconv.Itoa(i), "term": "", "leader": ""}}
		if v.leader == i && v.epoch > 0 {
			p.Report.Role = "primary"
		}
		if v.epoch > 0 {
			p.Report.Attributes["term"] = strconv.Itoa(v.epoch)
		}
		if v.leader >= 0 {
			p.Report.Attributes["leader"] = "m" + strconv.Itoa(v.leader)
		}
		if s.copying[i] {
			p.Ready, p.Report.Health, p.Report.Role = rollout.NotReady, report.Starting, ""
		}
		f.Pods = append(f.Pods, p)
	}
	elected := rollout.Elect(f, byAttributes, s.record)
	f.Named = &elected.Named
	return f, elected
}

// round is one of the engine, as the controller has it: labels first, then the status, on what was read. It dies after
// so many writes; negative for never.
func (e *electorate) round(writes int) {
	seen, before := e.cache, e.server.copied()
	f, elected := e.facts(seen)
	steps := rollout.Plan(f)
	if rollout.Careful(f, steps) || elected.State == rollout.ElectionChanged {
		read := e.server.copied()
		f, elected = e.facts(read)
		steps = rollout.Plan(f)
	}
	for _, step := range steps {
		if writes == 0 {
			e.note("the engine dies")
			return
		}
		writes--
		e.note("%s", step)
		if step.Action != rollout.SetRole {
			e.change(step)
			continue
		}
		e.server.labels[step.Ordinal] = step.Role
		if step.Role == "primary" && (e.server.record == nil || e.server.record.Primary != step.Pod) {
			e.failed("the label comes before the record, which is %+v", e.server.record)
		}
		e.check()
	}
	if elected.State != rollout.ElectionChanged || writes == 0 || e.server.version != seen.version {
		return
	}
	e.checkRecord(before, elected.Record)
	e.server.record, e.server.version = elected.Record, e.server.version+1
	e.note("recorded %s in %s", elected.Record.Primary, elected.Record.Epoch)
}

// check that at most one pod has the label.
func (e *electorate) check() {
	e.Helper()
	labelled := 0
	for _, label := range e.server.labels {
		if label == "primary" {
			labelled++
		}
	}
	if labelled > 1 {
		e.failed("the labels are %q", e.server.labels)
	}
}

// checkRecord that a majority of the wanted pods, and of those beyond them that report, reports the next record, and
// that it is of no earlier epoch where not all do.
func (e *electorate) checkRecord(read stored, next *platformv1.ElectionRecord) {
	e.Helper()
	is, _ := strconv.Atoi(next.Epoch)
	count := 0
	expected := read.replicas
	for i, v := range read.reports {
		if v.epoch > 0 && read.lives[i] == rollout.Alive && i >= read.replicas {
			expected++
		}
		if v.epoch == is && fmt.Sprintf("a-%d", v.leader) == next.Primary && read.lives[i] == rollout.Alive {
			count++
		}
	}
	if count <= expected/2 {
		e.failed("%s in %s is recorded, and the reports are %v", next.Primary, next.Epoch, read.reports)
	}
	if e.server.record == nil {
		return
	}
	was, _ := strconv.Atoi(e.server.record.Epoch)
	if is < was && count < expected {
		e.failed("the record goes back from %d to %d", was, is)
	}
}

// settle has pods end that are to, and all members learn the latest outcome and report it: the wanted pods are there,
// and the label is where it belongs, after a few rounds.
func (e *electorate) settle() {
	var latest view
	for range 6 * mostMembers {
		e.end()
		latest = e.latest()
		for _, i := range e.members() {
			e.views[i], e.server.reports[i], e.server.copying[i] = latest, latest, false
		}
		e.cache = e.server.copied()
		e.round(-1)
	}
	for i, label := range e.server.labels {
		want, life := "replica", rollout.Alive
		switch {
		case i >= e.server.replicas:
			want, life = "", ""
		case i == latest.leader:
			want = "primary"
		}
		if label != want || e.server.lives[i] != life {
			e.failed("all report %+v, %d pods are wanted, the labels are %q and the pods %q, with the record %+v", latest,
				e.server.replicas, e.server.labels, e.server.lives, e.server.record)
		}
	}
}

// However reports are lost or late, whatever the members take for true, whether the primary changes by an election or
// within one epoch, whichever pods come and go, and wherever the engine dies: never do two pods have the label of a
// primary, the record never goes back, and once all report the same the label is where it belongs.
func TestElectionsAreFollowedThroughLateReportsAndRestarts(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			e := newElectorate(t, seed)
			for range 300 {
				switch n := e.random.IntN(46); {
				case n < 2:
					e.elect()
				case n > 44:
					e.end()
				case n > 43:
					e.scale()
				case n > 41:
					e.handOver()
				case n < 20:
					e.deliver()
				case n < 30:
					e.refresh()
				case n < 37:
					e.round(-1)
				case n < 39:
					e.round(e.random.IntN(3))
					e.cache = e.server.copied() // The next one begins with what is there.
				case n > 39:
					e.copy()
				case e.random.IntN(4) == 0:
					e.restore()
				case e.random.IntN(2) == 0:
					e.earlier = slices.Clone(e.views)
				case len(e.earlier) > 0:
					e.revert()
				}
			}
			e.elect()
			e.settle()
		})
	}
}
