// SPDX-License-Identifier: Apache-2.0

// Package event publishes Kubernetes events, each at most once in a while: an
// object that is stuck says so once and costs nothing after that.
package event

import (
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// quiet is how long an identical event of an object is held back.
	quiet = 10 * time.Minute
	// remembered is how many different events are known at a time; the least
	// recently seen are forgotten first.
	remembered = 4096
	// maxNote is the longest note that the API takes, in bytes.
	maxNote = 1024
	// action is what the events are about, as the API asks for it, before what tells one note from another.
	action = "Reconcile"
)

// Recorder publishes events. It is safe for concurrent use.
type Recorder struct {
	events events.EventRecorder
	clock  clock.PassiveClock

	mu   sync.Mutex
	seen *lru.Cache
}

// identity is what makes two events identical.
type identity struct {
	uid                     types.UID
	eventType, reason, note string
}

// New returns a Recorder that publishes through the recorder of a manager
// (GetEventRecorder).
func New(recorder events.EventRecorder) *Recorder {
	return NewWithClock(recorder, clock.RealClock{})
}

// NewWithClock is New with a clock of one's own.
func NewWithClock(recorder events.EventRecorder, c clock.PassiveClock) *Recorder {
	return &Recorder{events: recorder, clock: c, seen: lru.New(remembered)}
}

// Normal tells of something that went as it should. The reason is a CamelCase
// word; the note is one sentence in the manner of fmt.Sprintf, in the past tense,
// and names the thing.
func (r *Recorder) Normal(obj client.Object, reason, note string, args ...any) {
	r.publish(obj, corev1.EventTypeNormal, reason, fmt.Sprintf(note, args...))
}

// Warning tells of something that a person should look at; otherwise as Normal.
func (r *Recorder) Warning(obj client.Object, reason, note string, args ...any) {
	r.publish(obj, corev1.EventTypeWarning, reason, fmt.Sprintf(note, args...))
}

func (r *Recorder) publish(obj client.Object, eventType, reason, note string) {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	id := identity{obj.GetUID(), eventType, reason, note}
	now := r.clock.Now()
	if !r.isNews(id, now) {
		return
	}
	// Whoever writes events down takes those that differ in their note alone for one that came again, and drops the later
	// notes: an action of its own keeps each.
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(note)) // It never fails.
	r.events.Eventf(obj, nil, eventType, reason, fmt.Sprintf("%s-%08x", action, sum.Sum32()), "%s", note)
}

// isNews says whether an event is to be published now, and remembers it if so.
func (r *Recorder) isNews(id identity, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, found := r.seen.Get(id); found && now.Sub(last.(time.Time)) < quiet {
		return false
	}
	r.seen.Add(id, now)
	return true
}
