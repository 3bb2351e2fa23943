// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const (
	// maxManyItems is the longest list that a forEach of an inline template goes through.
	maxManyItems = 5000
	// maxManyName is the longest item of such a list, in bytes.
	maxManyName = 1024
	// maxUnderWay is how many items of all steps of a run are under way at a time: each is on record.
	maxUnderWay = 256
	// maxItemMessage is how much is kept of why one item failed, in bytes. The step says it of the first one in full.
	maxItemMessage = 256
)

// many is a step that goes through many items. Its record has the items that are under way or failed, and the numbers
// of those that have succeeded as ranges. Items begin in the order of the list, so that there are no more ranges than
// items that are under way.
type many struct {
	itemsStep
	r    *run
	t    *optemplate.Step
	step *platformv1.StepStatus
	done ranges
	// kept are the items for the record.
	kept []platformv1.StepTarget
	// running are the items under way, of this step and of others.
	running, others int
	first, failure  verdict
}

// goThrough goes on with the items that are under way, and begins others while there may be more. Once one has failed
// no other is begun, and the step fails when those under way have ended.
func (s itemsStep) goThrough(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	names, why := r.items(t, step)
	if why != "" {
		return verdict{failed: why, final: yes}
	}
	done, err := parseRanges(step.Items.Done)
	if err != nil {
		return verdict{failed: fmt.Sprintf("the record of step %q cannot be read: items.done: %v", t.Name, err), final: yes}
	}
	m := &many{itemsStep: s, r: r, t: t, step: step, done: done, others: r.underWay(step)}
	begun := make(map[int32]bool, len(step.Targets))
	for i := range step.Targets {
		target := &step.Targets[i]
		begun[target.Number] = true
		if target.Phase == platformv1.OperationFailed && m.failure.done() {
			m.failure = verdict{failed: cmp.Or(target.Message, fmt.Sprintf("item %q failed", target.Name))}
		}
	}
	for i := range step.Targets {
		m.take(step.Targets[i])
	}
	for number := int32(1); number <= step.Items.Total && m.mayBegin(); number++ {
		if !begun[number] && !m.done.has(number) {
			m.take(platformv1.StepTarget{Name: names[number-1], Number: number, Phase: platformv1.OperationPending})
		}
	}
	step.Targets, step.Items.Done, step.Items.Succeeded = m.kept, m.done.String(), m.done.count()
	return m.verdict()
}

// mayBegin says whether another item may begin.
func (m *many) mayBegin() bool {
	return m.failure.done() && m.running < max(m.t.Parallelism, 1) && m.running+m.others < maxUnderWay
}

// take goes on with an item, or begins it.
func (m *many) take(target platformv1.StepTarget) {
	if target.Phase == platformv1.OperationFailed || target.Phase != platformv1.OperationRunning && !m.mayBegin() {
		m.kept = append(m.kept, target)
		return
	}
	target.Phase = platformv1.OperationRunning
	key := m.r.key(m.step, target.Name)
	if m.t.Task() != nil && m.first.effect != nil && m.r.facts.Answers[key] == nil {
		// One effect is brought about at a time: the next one follows.
		m.running++
		m.kept = append(m.kept, target)
		return
	}
	v := m.settle(m.r, m.t, m.step, item{value: &target.Name, number: int(target.Number), key: key, target: &target})
	switch {
	case v.done():
		m.done = m.done.add(target.Number)
		return
	case v.failed != "":
		if target.Number > 1 {
			v.untouched = ""
		}
		target.Phase, target.Message = platformv1.OperationFailed, cut(v.failed, maxItemMessage)
		if m.failure.done() {
			m.failure = v
		}
	default:
		m.running++
		m.first = joined(m.first, v)
	}
	m.kept = append(m.kept, target)
}

// verdict is that of the step.
func (m *many) verdict() verdict {
	switch {
	case m.running == 0 && !m.failure.done():
		return m.failure
	case m.running == 0 && m.done.count() == m.step.Items.Total:
		return verdict{}
	case m.running == 0:
		return verdict{waiting: fmt.Sprintf("items of other steps to end: at most %d are under way at a time", maxUnderWay),
			retry: objectPoll}
	case m.running > 1:
		m.first.waiting = several(m.running, m.first)
	}
	return m.first
}

// underWay is how many items of other steps are under way.
func (r *run) underWay(than *platformv1.StepStatus) int {
	n := 0
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		if step.Name == than.Name || step.Items == nil {
			continue
		}
		for j := range step.Targets {
			if step.Targets[j].Phase == platformv1.OperationRunning {
				n++
			}
		}
	}
	return n
}

// list records how many items there are, and which list they are of.
func (r *run) list(t *optemplate.Step, step *platformv1.StepStatus) (why string) {
	if step.Items == nil {
		step.Items = &platformv1.StepItems{}
	}
	names, why := r.items(t, step)
	step.Items.Total = int32(len(names))
	return why
}

// items are the items of a step: those of its expression, which depends on parameters and on steps that have ended, and
// so stays the same.
func (r *run) items(t *optemplate.Step, step *platformv1.StepStatus) (names []string, why string) {
	names, known := r.facts.Lists[t.Name]
	if known {
		return names, ""
	}
	names, err := r.facts.Template.Texts(t.Name, t.ForEach, r.variables(t, nil))
	if err != nil {
		return nil, fmt.Sprintf("cannot say what step %q goes through: %v", t.Name, err)
	}
	if why := checkItems(t, names, maxManyItems); why != "" {
		return nil, why
	}
	for _, name := range names {
		if len(name) > maxManyName {
			return nil, fmt.Sprintf("step %q would go through an item of %d bytes: at most %d are allowed", t.Name, len(name),
				maxManyName)
		}
	}
	digest := digestOf(names)
	if step.Items.Digest != "" && step.Items.Digest != digest {
		return nil, fmt.Sprintf("the list that step %q goes through is not the one that it began with", t.Name)
	}
	step.Items.Digest = digest
	if r.facts.Lists != nil {
		r.facts.Lists[t.Name] = names
	}
	return names, ""
}

// digestOf is a short digest of a list.
func digestOf(names []string) string {
	data, err := json.Marshal(names)
	if err != nil {
		panic(err) // They are texts.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// cut is the beginning of a text, at most so many bytes of it.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most] + "…"
}
