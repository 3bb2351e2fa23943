// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// Plan decides what to do now.
func Plan(f Facts, m *Memory) Decision {
	m.begin(f.Record)
	if f.Record.Founding() {
		return f.bootstrap()
	}
	if promised := f.promised(); promised > f.Record.Term {
		// The API server lost what came later, as after a restored backup, or what is read is behind: then the write is
		// refused.
		d := Decision{State: Changing, Message: fmt.Sprintf("members have promised term %d, which the record does not know",
			promised)}
		f.resume(&d, f.Record, promised)
		return d
	}
	if f.Record.Primary == nil {
		return f.succeed(m)
	}
	return f.reign(m)
}

// bootstrap gives the set its first record, or the first one of other volumes.
func (f *Facts) bootstrap() Decision {
	d := Decision{State: Starting}
	var members []permission.Member
	for i, name := range f.Wanted {
		p := f.pod(name)
		if i > 0 && f.Record.Term > 0 && p != nil && p.Blank {
			// The first has the data of these volumes, and this one has none that could say otherwise.
			continue
		}
		if p == nil || p.Presence != Alive || p.Member.Identity == "" {
			d.Message = fmt.Sprintf("the first writer is named when all %d pods are there: waiting for %s", len(f.Wanted), name)
			return d
		}
		member, _ := p.member()
		members = append(members, member)
	}
	if len(members) == 0 {
		return d
	}
	d.Message = "the first writer is being named"
	// What members know of a record that names nobody is no writer's term.
	promised, known := f.promised(), f.Record.Term
	if promised <= known {
		// The others are members once they have its data.
		members = members[:1]
	}
	first, err := f.Record.Bootstrap(members)
	if err == nil && promised > known {
		f.resume(&d, first, promised)
		return d
	}
	if err == nil {
		first, err = first.Name(members[0])
	}
	if err != nil {
		d.Message = err.Error()
		return d
	}
	d.write(Step{Record: first, Former: first.Primary}, "all pods are there for the first time")
	return d
}

// resume goes on where volumes know of a later term than the record. The pod that was named in it goes on as the
// writer, if it is there: its data is the latest, and with its term nobody else can have a permission.
func (f *Facts) resume(d *Decision, next permission.Record, promised int64) {
	next.Term, next.Primary = max(promised+1, next.Term), nil
	// Who was named in between is not known: none that is promised the term proves then that nobody writes.
	var former *permission.Member
	for _, p := range f.Pods {
		if member, known := p.member(); known && p.Presence == Alive && p.Member.Term == promised && next.Eligible(member) {
			next.Primary, next.Previous, former = &member, nil, &member
		}
	}
	change := &Change{Cause: Recovered, Why: fmt.Sprintf("volumes know of term %d", promised)}
	d.write(Step{Record: next, Former: former, Unlabel: f.labelled(), Change: change}, "%s", change.Why)
}

// promised is the highest term that a pod has promised. What is beyond reason is not believed where there is a record
// to say so.
func (f *Facts) promised() int64 {
	highest := int64(0)
	for _, p := range f.Pods {
		said := max(p.Member.Promised, p.Member.Term)
		if f.Record.Term == 0 || said-f.Record.Term <= permission.MaxJump {
			highest = max(highest, said)
		}
	}
	return highest
}

// labelled is a pod with the writer's label, if there is one.
func (f *Facts) labelled() string {
	for _, p := range f.Pods {
		if p.Established {
			return p.Name
		}
	}
	return ""
}

// reign looks after a set with a named writer.
func (f *Facts) reign(m *Memory) Decision {
	writer := f.pod(f.Record.Primary.Name)
	if writer != nil && writer.Established && writer.is(*f.Record.Primary) {
		m.established = true
		if writer.Member.Writing && writer.Health == report.Healthy && writer.History != "" {
			m.wrote(writer.History)
		}
	}
	if writer != nil && f.Record.Previous != nil && writer.is(*f.Record.Primary) {
		if next := f.Record.Confirm(writer.Member.Term, writer.Member.ListVersion); next.Previous == nil {
			d := Decision{State: Steady}
			d.write(Step{Record: next, Former: f.Record.Primary}, "%s goes by list %d", writer.Name, next.List.Version)
			return d
		}
	}
	d := f.judge(m, writer)
	if len(d.Steps) == 0 || d.Steps[0].Action != Write {
		if d.State == Steady {
			f.changeList(m, writer, &d)
		}
	}
	if len(d.Steps) == 0 || d.Steps[0].Action != Write {
		f.tell(m, &d)
	}
	return d
}

// judge says whether the writer stays.
func (f *Facts) judge(m *Memory, writer *Pod) Decision {
	d := Decision{State: Steady}
	f.expire(m, &d)
	why, at := f.trouble(m, writer, &d)
	if why != "" && !f.obeys(m, writer) {
		d.State, d.Message = Down, why
		if m.established || at <= f.Now {
			d.State = Down
		} else {
			d.State = Starting
		}
		if f.alone(writer) && !f.takesOver() {
			// Nobody could take over: what is wrong with the pod is told by itself.
			d.Message = ""
			m.open()
			return d
		}
		if f.Mode == Manual && (f.Order == nil || f.Order.Way == HandOver) {
			m.open()
			d.Message += "; failover.mode is Manual, so that another pod takes over only when you say so: " + howToSwitch
			if f.Order != nil {
				d.Refused = d.Message
			}
			return d
		}
		if f.Now < at && !f.takesOver() {
			f.foresee(m, &d, writer, at)
			return d
		}
		return f.replace(m, d, why)
	}
	if f.Order != nil {
		return f.obey(m, d, writer)
	}
	m.open()
	return d
}

// foresee gets ready for another writer, which there is when this one is not back at a time: who could that be, and
// whom Services do not lead to.
func (f *Facts) foresee(m *Memory, d *Decision, writer *Pod, at time.Duration) {
	d.wakeAt(at)
	// Half of the time is for a process that is started again in place: Services lead to it all along.
	if soon := at - min(proxyPeriod, f.After/2); f.Now < soon {
		d.wakeAt(soon)
		return
	}
	switch best, _ := f.heir(m, d); {
	case best != nil:
		f.shut(m, writer)
	case !d.measuring:
		m.open()
	}
}

// shut has the writer's label go before it is deposed.
func (f *Facts) shut(m *Memory, writer *Pod) {
	if m.shut == 0 && writer != nil && writer.Established {
		m.shut = f.Now
	}
}

// alone says whether no other pod is wanted than the one that writes, which is there with its volume.
func (f *Facts) alone(writer *Pod) bool {
	return writer != nil && writer.Presence == Alive && writer.is(*f.Record.Primary) && len(f.Wanted) == 1 &&
		f.Wanted[0] == writer.Name
}

// obeys says that an order is being carried out on a writer that was paused for it, which looks as if it were down.
func (f *Facts) obeys(m *Memory, writer *Pod) bool {
	return f.Order != nil && writer != nil && m.pause.held != 0 && m.pause.failed == 0
}

// howToSwitch says what a person does to have another pod write.
const howToSwitch = "run an Operation of template Failover"

// takesOver says whether another pod is to take over at once.
func (f *Facts) takesOver() bool { return f.Order != nil && f.Order.Way == TakeOver }

// accepts says whether a loss of data is accepted.
func (f *Facts) accepts() bool { return f.Order != nil && f.Order.Loss == Accepted }

// trouble says what is wrong with the writer, and when that is reason enough; empty when nothing is.
func (f *Facts) trouble(m *Memory, writer *Pod, d *Decision) (why string, at time.Duration) {
	name := f.Record.Primary.Name
	grace := f.After
	if !m.established {
		grace = patience
	}
	since := func() time.Duration {
		f.relapses(m)
		if m.down == 0 {
			m.down = f.Now
			if writer != nil && writer.Health == report.Unhealthy {
				failed := min(max(writer.FailedFor, 0), grace)
				if !m.established {
					// What it was before it was named is not held against it.
					failed = min(failed, f.NamedFor)
				}
				m.down = max(f.Now-failed, 1)
			}
		}
		if m.established {
			return m.down + grace
		}
		// It may have written for an engine before this one.
		return min(m.down+grace, max(f.Now-f.NamedFor+patience, m.down+f.After))
	}
	switch {
	case writer == nil:
		return fmt.Sprintf("pod %s, which writes, is gone", name), since()
	case writer.Presence == Leaving:
		return fmt.Sprintf("pod %s, which writes, is on its way out", name), f.Now
	case writer.Member.Identity != "" && !writer.is(*f.Record.Primary):
		return fmt.Sprintf("pod %s, which wrote, has another volume", name), f.Now
	case writer.Presence == Unreachable:
		return fmt.Sprintf("pod %s, which writes, is on a node that nobody reaches", name), f.Now
	case f.accused() && f.unanswered(m, writer, d):
		return fmt.Sprintf("pod %s, which writes, is reached neither by those that follow it nor by the operator", name),
			f.Now
	case !writer.Member.Writing || writer.Health == report.Unhealthy || writer.Health == report.Stopped:
		return fmt.Sprintf("the process of pod %s, which writes, is down", name), since()
	case m.established && writer.Health != report.Healthy && !writer.OutOfConnections:
		return fmt.Sprintf("the process of pod %s, which writes, has not come up yet", name), f.starts(m, since)
	case !m.established && writer.Reluctance != "":
		return fmt.Sprintf("pod %s, which is to write, does not come to it: %s", name, writer.Reluctance), since()
	}
	m.starts = 0
	switch {
	case !m.established:
		m.down, m.well = 0, 0
	case m.down != 0 && m.well == 0:
		m.well = f.Now
	}
	return "", 0
}

// starts is when a writer that comes up has taken too long. Where it was down before, that time goes on. Else it may be
// its agent that has begun anew and has yet to see that it works.
func (f *Facts) starts(m *Memory, down func() time.Duration) time.Duration {
	if m.down != 0 {
		return down()
	}
	if m.starts == 0 {
		m.starts = f.Now
	}
	return m.starts + max(patience, f.After)
}

// relapses has a writer that is down again be down for as long as it was before, unless it was well for as long as
// others wait: what comes back to die again is not waited for anew each time. When it was well for less than half of
// that, it was never back.
func (f *Facts) relapses(m *Memory) {
	well := f.Now - m.well
	switch {
	case m.well == 0:
	case well >= f.After:
		m.down = 0
	case well >= f.After/2:
		m.down += well
	}
	m.well = 0
}

// accused says whether a follower is not asked any more.
func (f *Facts) accused() bool {
	return slices.ContainsFunc(f.Pods, func(p Pod) bool {
		return p.Accuses && p.Presence == Alive && p.Name != f.Record.Primary.Name &&
			f.Record.List.Has(permission.Member{Name: p.Name, Identity: p.Member.Identity})
	})
}

// unanswered says whether the writer's agent does not answer; it is asked first.
func (f *Facts) unanswered(m *Memory, writer *Pod, d *Decision) bool {
	if answer, counts := m.answer(writer.Name, f.Now); counts {
		d.wakeAt(answer.At + fresh)
		// One that refuses is there, whatever is wrong with its certificate.
		return answer.Problem != "" && !answer.Alive()
	}
	d.add(Step{Action: Ask, Pod: writer.Name}, "a follower has not been asked for a while")
	return false
}

// replace deposes the writer when another pod can take over.
func (f *Facts) replace(m *Memory, d Decision, why string) Decision {
	best, problem := f.heir(m, &d)
	if best == nil {
		if !d.measuring {
			m.open()
		}
		d.Message = fmt.Sprintf("%s, and no other pod can take over: %s%s", why, problem, f.bereft())
		if f.takesOver() && !d.measuring {
			d.Refused = d.Message
		}
		return d
	}
	change := &Change{Cause: Failed, Why: why}
	if f.Mode == Manual || f.takesOver() {
		change.By = f.Order.By
	}
	d.State, d.Message = Changing, fmt.Sprintf("%s: %s is to take over", why, best.Name)
	d.write(Step{Record: f.Record.Depose(), Former: f.Record.Primary, Unlabel: f.Record.Primary.Name, Change: change},
		"%s, and %s can take over", why, best.Name)
	return d
}

// heir is the pod that takes over from a writer that failed. Where a person decides, it is the one that he named.
func (f *Facts) heir(m *Memory, d *Decision) (*Pod, string) {
	if f.Mode == Manual || f.takesOver() {
		return f.chosen(m, d)
	}
	return f.candidate(m, d, *f.Record.Primary)
}

// unsafe says why a candidate with this measurement may lack too much; empty when it does not.
func (f *Facts) unsafe(have Measurement) string {
	switch {
	case f.accepts():
	case have.Problem != "":
		return "cannot be measured: " + have.Problem
	case f.MaxLag != nil && have.Lag == nil:
		return "does not say how far it is behind, and failover.maxLag is set"
	case f.MaxLag != nil && *have.Lag > *f.MaxLag:
		return fmt.Sprintf("is %d bytes behind, and failover.maxLag is %d", *have.Lag, *f.MaxLag)
	}
	return ""
}

// outranks says whether a candidate is the better one.
func (f *Facts) outranks(m *Memory, p *Pod, have Measurement, best *Pod, measurement Measurement) bool {
	ours, theirs := have.follows(m.history), measurement.follows(m.history)
	switch {
	case f.accepts() && (f.prefers(p) || f.prefers(best)):
		return f.prefers(p)
	case have.Problem != "" || measurement.Problem != "":
		// Where a loss is accepted: who can be measured comes first.
		return have.Problem == ""
	case have.descends(measurement):
		return true
	case measurement.descends(have):
		return false
	case m.later(have, measurement) != m.later(measurement, have):
		return m.later(have, measurement)
	case ours != theirs:
		return ours
	}
	return have.Order > measurement.Order || have.Order == measurement.Order && f.prefers(p)
}

// retry asks a pod that did not answer, now and then.
func (f *Facts) retry(m *Memory, d *Decision, p *Pod) {
	at, isDue := due(m.answers[p.Name].At, true, f.Now, m.pace(p.Name, again))
	if isDue {
		d.add(Step{Action: Ask, Pod: p.Name}, "it may take over, and did not answer")
	}
	d.wakeAt(max(at, f.Now+again))
}

// prefers says whether a pod is the one that an order names.
func (f *Facts) prefers(p *Pod) bool { return f.Order != nil && f.Order.To == p.Name }

// measure gives a measurement of a pod that counts; or has one made.
func (f *Facts) measure(m *Memory, d *Decision, p *Pod) (have Measurement, pending bool) {
	if f.Measures == FromReports {
		return p.Measurement, false
	}
	interval := fresh
	last, known := m.measures[p.Name]
	if last.Problem != "" {
		interval = again
	}
	at, isDue := due(last.at, known && last.at >= m.settled, f.Now, interval)
	if isDue {
		d.add(Step{Action: Measure, Pod: p.Name}, "it may take over")
	} else {
		d.wakeAt(at)
	}
	// One failure says nothing of its data.
	if isDue || last.Problem != "" && m.failures[p.Name] < tries {
		d.measuring = true
		return Measurement{}, true
	}
	return last.Measurement, false
}

// tell has pods learn the record that do not know it.
func (f *Facts) tell(m *Memory, d *Decision) {
	for _, p := range f.Pods {
		if p.Presence != Alive || p.Member.Identity == "" || f.knows(m, p) {
			continue
		}
		last, told := m.told[p.Name]
		at, isDue := due(last, told, f.Now, m.pace(p.Name, fresh))
		if isDue {
			d.add(Step{Action: Tell, Pod: p.Name}, "it does not know term %d, list %d", f.Record.Term, f.Record.List.Version)
		}
		d.wakeAt(max(at, f.Now+again))
	}
}

// knows says whether a pod goes by the record, by its report or since it was told.
func (f *Facts) knows(m *Memory, p Pod) bool {
	k, primary := p.Member, f.Record.Primary
	if m.taught[p.Name] == (lesson{k.Identity, f.Record.List.Version}) {
		return true
	}
	if !p.is(*primary) {
		return k.Promised == f.Record.Term && k.Primary == primary.Name
	}
	return k.Promised == f.Record.Term && k.Term == f.Record.Term && k.ListVersion == f.Record.List.Version
}
