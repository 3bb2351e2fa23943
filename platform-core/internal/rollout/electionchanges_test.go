// SPDX-License-Identifier: Apache-2.0

package rollout_test

import "github.com/zeroinfra/platform-core/internal/rollout"

// mostMembers is how many pods an electorate has at most.
const mostMembers = 5

// members are the ordinals of the pods that run.
func (e *electorate) members() []int {
	var all []int
	for i, life := range e.server.lives {
		if life == rollout.Alive {
			all = append(all, i)
		}
	}
	return all
}

// latest is what the members take for the outcome of the latest election, by one that knows it.
func (e *electorate) latest() view {
	latest := view{leader: -1}
	for _, i := range e.members() {
		if v := e.views[i]; v.epoch > latest.epoch || v.epoch == latest.epoch && v.leader >= 0 {
			latest = v
		}
	}
	return latest
}

// handOver has the members make another one the primary in the epoch in which they are, as they do for a planned
// change. Each of them learns of it now or never, the new primary now.
func (e *electorate) handOver() {
	now := e.latest()
	var of []int
	for _, i := range e.members() {
		if e.views[i].epoch == now.epoch && i != now.leader {
			of = append(of, i)
		}
	}
	if now.epoch == 0 || len(of) == 0 {
		return
	}
	to := of[e.random.IntN(len(of))]
	for _, i := range e.members() {
		if e.views[i].epoch == now.epoch && (i == to || e.random.IntN(3) > 0) {
			e.views[i].leader = to
		}
	}
	e.note("%d hands over to %d in %d", now.leader, to, now.epoch)
}

// scale has another number of pods be wanted.
func (e *electorate) scale() {
	e.server.replicas = []int{1, 3, 5}[e.random.IntN(3)]
	e.server.version++
	e.note("%d pods are wanted", e.server.replicas)
}

// change makes a pod, or has one begin to end. What is held is left alone.
func (e *electorate) change(step rollout.Step) {
	i := int(step.Ordinal)
	switch step.Action {
	case rollout.CreatePod:
		if e.server.lives[i] == "" {
			e.server.lives[i], e.server.labels[i] = rollout.Alive, ""
			e.views[i], e.copying[i] = view{leader: -1}, false
			e.server.reports[i], e.server.copying[i] = view{leader: -1}, false
		}
	case rollout.DeletePod:
		if e.server.lives[i] == rollout.Alive {
			e.leave(i)
		}
	case rollout.Hold:
	default:
		e.failed("it does %s", step)
	}
}

// leave has a member leave the others, which agree on that: whoever is left knows of the latest election, and of
// another one where it was the primary.
func (e *electorate) leave(i int) {
	now := e.latest()
	e.server.lives[i] = rollout.Terminating
	left := e.members()
	if len(left) == 0 {
		return
	}
	if now.leader == i && now.epoch > 0 {
		now = view{now.epoch + 1, left[e.random.IntN(len(left))]}
	}
	for _, other := range left {
		if e.views[other].epoch < now.epoch {
			e.views[other] = now
		}
	}
	e.note("%d leaves, and %+v is what the others know", i, now)
}

// end has the pods be gone that are on their way out.
func (e *electorate) end() {
	for i, life := range e.server.lives {
		if life == rollout.Terminating {
			e.server.lives[i], e.server.labels[i], e.server.reports[i] = "", "", view{}
		}
	}
}
