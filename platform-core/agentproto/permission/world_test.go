// SPDX-License-Identifier: Apache-2.0

package permission_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// world is a set of machines with clocks of their own, and a network between them and the API server that loses,
// delays, doubles and reorders what is sent. Nothing in it depends on real time.
type world struct {
	random *rand.Rand
	flaws  flaws
	now    time.Duration
	events events
	order  int
	nodes  []*node
	api    api
	// calm ends all faults.
	calm bool
	log  []string
	// violation is what must not be, once it was.
	violation string
	// named counts the terms in which somebody wrote.
	named map[int64]permission.Member
}

// flaws break one rule each, to show that the simulation would notice.
type flaws struct {
	// wait is added to the time that the engine waits.
	wait time.Duration
	// fromReceipt counts a permission from the answer.
	fromReceipt bool
	// anyCandidate takes members that the primary has yet to confirm.
	anyCandidate bool
	// anyVersion has the engine overwrite records that it has not seen.
	anyVersion bool
	// slow has clocks differ by more than the margin is for.
	slow float64
}

// api is the API server: one record, read and written one at a time.
type api struct {
	record  permission.Record
	version int
	down    bool
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{at: w.now + max(d, time.Millisecond), order: w.order, do: do})
}

func (w *world) run(until time.Duration) {
	for w.violation == "" && len(w.events) > 0 && w.events[0].at <= until {
		next := heap.Pop(&w.events).(event)
		w.now = next.at
		next.do()
		w.check()
	}
	w.now = until
}

// check looks for what must never be.
func (w *world) check() {
	var primary *node
	for _, n := range w.nodes {
		if !n.writes() {
			continue
		}
		if primary != nil {
			w.violation = fmt.Sprintf("%s (term %d) and %s (term %d) write at once", primary.self.Name,
				primary.agent.State().Term, n.self.Name, n.agent.State().Term)
			return
		}
		primary = n
	}
	if primary == nil {
		return
	}
	term := primary.agent.State().Term
	if other, ok := w.named[term]; ok && other != primary.self {
		w.violation = fmt.Sprintf("%v and %v wrote in term %d", other, primary.self, term)
	}
	w.named[term] = primary.self
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8.3f ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) chance(p float64) bool { return !w.calm && w.random.Float64() < p }

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)))
}

// send carries something over the network, perhaps.
func (w *world) send(cut func() bool, deliver func()) {
	copies := 1
	if w.chance(0.05) {
		copies = 2
	}
	for range copies {
		delay := w.between(time.Millisecond, 30*time.Millisecond)
		if w.chance(0.1) {
			delay = w.between(0, 9*time.Second)
		}
		if w.chance(0.05) || cut() {
			continue
		}
		// What is under way arrives, however late.
		w.after(delay, deliver)
	}
}

// node is a machine with one pod on it.
type node struct {
	*world
	self  permission.Member
	agent *permission.Agent
	disk  permission.State
	// boots tells what was begun before a restart from what came after it.
	boots int
	// rate of its clock, and what it showed at the start.
	rate   float64
	offset time.Duration
	// cut off from all others, and apart from the API server alone.
	cut    bool
	apart  bool
	up     bool
	paused bool
	// held is what came while the machine was paused.
	held []func()
	// running says that the process is there.
	running bool
}

func (n *node) clock() time.Duration {
	return n.offset + time.Duration(float64(n.now)*n.rate)
}

func (n *node) writes() bool { return n.running && n.up && !n.paused }

// do has the machine do something, now or when it goes on, unless its agent was restarted since.
func (n *node) do(what func()) {
	boots := n.boots
	var once func()
	once = func() {
		switch {
		case n.boots != boots || !n.up:
		case n.paused:
			n.held = append(n.held, once)
		default:
			n.enforce()
			what()
			n.save()
			n.enforce()
		}
	}
	once()
}

// save writes the state to disk before anything is sent: sends are events of their own, never earlier than this one.
func (n *node) save() { n.disk = n.agent.State() }

// enforce starts the process when it may write, and kills it when it may not.
func (n *node) enforce() {
	valid := n.agent.Named() && n.agent.Valid(n.clock())
	if valid == n.running {
		return
	}
	n.running = valid
	n.note("%s writes: %v, term %d", n.self.Name, valid, n.agent.State().Term)
	if valid {
		n.alarm()
	}
}

// alarm wakes the agent at the end of its permission.
func (n *node) alarm() {
	boots := n.boots
	left := time.Duration(float64(n.agent.Until()-n.clock())/n.rate) + time.Nanosecond
	n.after(left, func() {
		if n.boots != boots {
			return
		}
		n.do(func() {})
		if n.running || n.paused {
			n.alarm()
		}
	})
}

func (n *node) cutOff(length time.Duration) {
	n.note("%s is cut off", n.self.Name)
	n.cut = true
	n.after(length, func() { n.cut = false })
}

func (n *node) apartFor(length time.Duration) {
	n.note("%s does not reach the API server", n.self.Name)
	n.apart = true
	n.after(length, func() { n.apart = false })
}

func (n *node) crash() {
	n.note("%s crashes", n.self.Name)
	n.up, n.running, n.held = false, false, nil
	n.boots++
	n.after(n.between(time.Second, 6*time.Second), func() {
		n.agent, n.up = permission.NewAgent(n.self, n.disk), true
		n.tick(n.boots)
	})
}

// lose takes pod and volume away; what comes back has an empty disk.
func (n *node) lose() {
	n.note("%s loses its volume", n.self.Name)
	n.disk = permission.State{}
	n.self.Identity = fmt.Sprint(n.boots + 1)
	n.crash()
}

func (n *node) pause() {
	n.note("%s is paused", n.self.Name)
	n.paused = true
	boots := n.boots
	n.after(n.between(time.Second, 20*time.Second), func() {
		if n.boots != boots {
			n.paused = false
			return
		}
		n.note("%s goes on", n.self.Name)
		// The agent looks at its clock before anything else.
		n.running = n.running && n.agent.Valid(n.clock())
		n.paused = false
		held := n.held
		n.held = nil
		for _, what := range held {
			what()
		}
	})
}

// tick has a primary ask for its permission, twice a second.
func (n *node) tick(boots int) {
	if n.boots != boots {
		return
	}
	n.do(func() {
		if round := n.agent.Ask(n.clock()); round != nil {
			n.ask(round)
		}
		// The way over the API server is taken while the other fails, and to hear of a term.
		if n.agent.Until()-n.clock() < permission.Validity-time.Second {
			n.read()
		}
	})
	n.after(500*time.Millisecond, func() { n.tick(boots) })
}

func (n *node) ask(round *permission.Round) {
	boots := n.boots
	for _, m := range round.Members {
		other := n.find(m.Name)
		if other == nil {
			continue
		}
		broken := func() bool { return n.cut || other.cut }
		n.send(broken, func() {
			other.do(func() {
				self := other.self
				acknowledged, promised := other.agent.Acknowledge(round.Term)
				n.send(broken, func() {
					if n.boots != boots {
						return
					}
					n.do(func() {
						if acknowledged {
							n.receipt(func() { n.agent.Acknowledged(round, self) })
						} else {
							n.agent.Refused(promised)
						}
					})
				})
			})
		})
	}
}

// receipt carries out what may give a permission; with a flaw it is counted from now.
func (n *node) receipt(take func()) {
	before := n.agent.Until()
	take()
	if n.flaws.fromReceipt && n.agent.Until() > before {
		n.agent.Read(n.clock(), permission.Record{Term: n.agent.State().Term, Primary: &n.self, List: n.agent.State().List})
	}
}

func (n *node) read() {
	boots, sent := n.boots, n.clock()
	broken := func() bool { return n.cut || n.apart || n.api.down }
	n.send(broken, func() {
		record := n.api.record
		n.send(broken, func() {
			if n.boots == boots {
				n.do(func() { n.receipt(func() { n.agent.Read(sent, record) }) })
			}
		})
	})
}

func (w *world) find(name string) *node {
	for _, n := range w.nodes {
		if n.self.Name == name {
			return n
		}
	}
	return nil
}
